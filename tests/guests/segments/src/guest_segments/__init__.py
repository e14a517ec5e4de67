"""A guest of ARES: an annotator that finds segments, and one that judges each of them. Both are test doubles."""
