"""The pipelines beside the job, as they report themselves."""
