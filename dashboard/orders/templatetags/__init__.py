"""Template tags of the orders' page."""
