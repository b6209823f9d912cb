"""What a run leaves behind: its directory, events, record and provenance, and the archive of committed records."""
