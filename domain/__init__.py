"""The domain of the board in plain Python, using only the standard library."""
