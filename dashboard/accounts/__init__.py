"""Users, their roles and their API tokens."""
