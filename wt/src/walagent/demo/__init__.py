"""A support desk to try walagent on: its tables and tools, tickets, and an agent for them."""
