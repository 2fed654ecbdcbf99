"""The commands for documents and memories."""
