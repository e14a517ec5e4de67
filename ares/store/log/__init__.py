"""The log of annotations: its protocol, and where it is kept."""
