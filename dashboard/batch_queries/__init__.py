"""The shared parts of the pages of batch queries.

Batch queries are requested of the job, followed, cancelled, stored.
"""
