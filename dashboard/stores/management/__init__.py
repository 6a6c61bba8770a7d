"""The commands of the orders."""
