"""Curate: frozen selections of episodes."""
