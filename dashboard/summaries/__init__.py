"""Summaries: what the history of a period adds up to, for people who answer for it."""
