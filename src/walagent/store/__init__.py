"""Read and write walagent's tables: one function for each statement, a file for a long one.

Only this package uses the schema.  Functions take an open connection; the caller commits.
"""
