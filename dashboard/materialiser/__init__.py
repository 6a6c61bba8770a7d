"""Sink topics into the database."""
