"""Builds the parts of walagent and lets them work together; knows everybody."""
