"""Rows of a result, and the tabular forms they are given in."""
