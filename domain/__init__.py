"""The vocabulary of the board as plain Python: scenario, report, command, fold. Standard library only."""
