"""Judges drawn from parameters that grade captions of a made-up world, and what becomes of their grades."""
