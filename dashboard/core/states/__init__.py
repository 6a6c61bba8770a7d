"""The states as rows of the database and of a board; the filter language; ways to ask for them."""
