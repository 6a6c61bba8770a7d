"""The vocabulary of the board as plain Python, standard library only."""
