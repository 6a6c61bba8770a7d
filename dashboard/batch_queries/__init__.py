"""Batch queries that pages request of the job: submitted, followed, cancelled."""
