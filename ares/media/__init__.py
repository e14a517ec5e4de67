"""Media: frames at given seconds and playable videos, from wherever the pixels are."""
