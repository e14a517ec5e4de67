"""Checks of datasets where they lie, and the corrected copy of one."""
