"""Tables of frame and text vectors, searched exactly or by a measured index."""
