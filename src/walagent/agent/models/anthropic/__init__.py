"""Models of the Anthropic API."""
