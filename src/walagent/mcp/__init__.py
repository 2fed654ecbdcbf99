"""The MCP (Model Context Protocol) server, and the MCP servers whose tools agents use."""
