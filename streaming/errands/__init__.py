"""Errands: Spark batches that the console asks for, in a process of their own beside the query."""
