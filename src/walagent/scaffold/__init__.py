"""A first agents.yaml: what is there to choose from, and the file that follows from the choice."""
