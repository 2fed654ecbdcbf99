"""The console: its pages and files, which the daemon's HTTP server sends."""
