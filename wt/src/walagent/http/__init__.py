"""What is served over HTTP: health and metrics.

In: how the daemon is doing, as `Health`, and the registry of metrics.  Out: a Starlette app, and
a coroutine that serves it inside the daemon's own event loop.
"""
