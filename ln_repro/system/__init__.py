"""What the operating system offers: files, paths, locks, signals, subprocesses, ranks and the terminal."""
