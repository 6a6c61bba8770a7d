"""The state that Spark has committed, row by row, beside the database."""
