"""Stores: LanceDB tables as the index, an append-only annotation log as the truth."""
