"""The `ares` command line: one file per command, grouped by job."""
