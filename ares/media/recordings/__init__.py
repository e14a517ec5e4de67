"""Recordings as sources of pictures: MCAP files and ROS bags."""
