"""Create and upgrade the schema of walagent in a database."""
