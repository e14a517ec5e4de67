"""Tables of episodes, signals and segments in Lance, read by version."""
