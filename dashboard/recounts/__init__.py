"""Summaries counted once more from the log, by Spark, and held against what is summed up."""
