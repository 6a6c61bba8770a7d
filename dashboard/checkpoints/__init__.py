"""The database's progress in the logs, and snapshots of the fold."""
