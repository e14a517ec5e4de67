"""Search: from a text, an image or an episode to moments; filters and facets over the columns."""
