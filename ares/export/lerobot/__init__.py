"""Export as LeRobot datasets, v3.0 or v2.1."""
