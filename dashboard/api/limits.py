"""Limits of one user's requests to the API."""

from __future__ import annotations

from dashboard.core.rate_limits import Limit

REQUESTS = Limit("requests", 6_000)
"""Of whatever kind; commands and reports have their own limits besides."""
