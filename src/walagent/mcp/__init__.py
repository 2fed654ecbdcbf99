"""Questions and runs for programs that speak the Model Context Protocol."""
