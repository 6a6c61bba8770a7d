"""Batch queries: Spark batches that the console asks for, each in a process beside the query."""
