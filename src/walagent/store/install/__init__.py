"""What an installation has in a database and on its server."""
