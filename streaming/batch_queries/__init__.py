"""Batch queries: Spark batches that the console asks for, each in a process next to the query."""
