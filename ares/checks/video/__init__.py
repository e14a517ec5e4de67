"""Checks of videos: pictures, motion, and a camera against its dataset."""
