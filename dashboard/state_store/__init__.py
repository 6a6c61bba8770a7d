"""What Spark has committed of the state, row by row, next to the database."""
