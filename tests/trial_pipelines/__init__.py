"""Pipelines that tests run in a process of their own."""
