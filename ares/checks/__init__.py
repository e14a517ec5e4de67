"""Checks: the promises between the stores, each found by streaming and mended where nothing is lost by it."""
