"""Serve health and metrics over HTTP.

Input: the state of the daemon as `Health`, and the registry of metrics.  Output: a Starlette app,
and a coroutine that serves it inside the daemon's event loop.
"""
