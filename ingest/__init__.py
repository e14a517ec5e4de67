"""Ingest: one file per source format; what each yields is an Item that knows who it is before it is read."""
