"""The rules in force, and the log replayed and compared with the database."""
