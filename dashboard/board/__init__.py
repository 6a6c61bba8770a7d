"""The live board: states and their history."""
