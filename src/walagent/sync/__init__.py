"""Live sync: rows of tables, as they are and as they change, over the HTTP Shape protocol."""
