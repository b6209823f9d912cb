"""Run directories, events, records and provenance of runs, and the archive of committed records."""
