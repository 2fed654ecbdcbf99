"""Compare the entries of a file with the database and apply them."""
