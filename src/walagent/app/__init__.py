"""Compose the parts of walagent into processes; imports every other package."""
