"""Nouns without I/O: change, attachment, agent, run, thread, tool, tenant."""
