"""Notes on statements that run and mean something else than they seem to.  Nothing is refused."""
