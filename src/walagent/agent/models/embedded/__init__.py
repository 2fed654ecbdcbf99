"""The embedded decision model: chooses tools by embedding similarity."""
