"""Where the orders are: the ways to ask for them, side by side."""
