"""The pipelines beside the job: declared, run and supervised in a process of their own."""
