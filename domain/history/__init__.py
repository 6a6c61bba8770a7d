"""Sums over the history of states: calendar periods, spans of time, and their totals."""
