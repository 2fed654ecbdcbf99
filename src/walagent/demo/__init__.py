"""A support desk to try walagent: its tables and tools, tickets, and an agent for them."""
