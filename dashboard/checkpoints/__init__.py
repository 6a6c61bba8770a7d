"""How far the database has come in the logs, and snapshots of the fold."""
