"""A drawn world that logs what happens in it: rubrics.md calls for tests of judges that need no trained model."""
