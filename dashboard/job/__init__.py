"""The job's reports of itself."""
