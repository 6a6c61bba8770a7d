"""The process that writes the database."""
