"""One call of a tool: admit it, carry it out, record it."""
