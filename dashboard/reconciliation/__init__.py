"""The topics replayed through the fold, held against the database."""
