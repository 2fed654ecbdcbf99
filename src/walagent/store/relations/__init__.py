"""What the catalog says of the tables of users, and what a transaction has changed in them."""
