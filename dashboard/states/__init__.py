"""The states of assets as the database keeps them, and as rows of a board."""
