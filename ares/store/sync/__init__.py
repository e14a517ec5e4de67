"""Keeps the tables equal to what the annotation log says: columns of episodes, and segments."""
