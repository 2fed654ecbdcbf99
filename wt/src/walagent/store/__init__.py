"""The only package that knows our schema: one function per statement, one file per longer one.

Functions take an open connection and never commit: the caller knows what belongs together.
"""
