"""What a file declares, compared with the database and applied to it."""
