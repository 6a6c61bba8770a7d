"""Requests to the job, and what each has it do."""
