"""What any program for PostgreSQL needs: connections, logins, positions, types."""
