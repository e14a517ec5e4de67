"""Video files: probed, encoded, cut and joined by packets."""
