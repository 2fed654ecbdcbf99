"""A model that follows a script, for tests."""
