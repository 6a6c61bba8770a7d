"""The processes: what writes the database, answers programs, speaks HTTP."""
