"""Models of the OpenAI API, and of every server that speaks it."""
