"""Annotators of episodes and captions, the models that they call, and the run that stores their results."""
