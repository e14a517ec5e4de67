"""Formats and an annotator of a laboratory, beside ARES."""
