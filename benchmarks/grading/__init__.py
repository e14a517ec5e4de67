"""Measures the judge of captions on simulated episodes against every bar that it was given."""
