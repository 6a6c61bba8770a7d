"""The processes that write the database, answer programs and serve HTTP."""
