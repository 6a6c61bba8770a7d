"""What Spark has committed of the state, row by row, beside the database."""
