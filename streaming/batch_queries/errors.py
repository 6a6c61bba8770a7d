"""Why a batch query is not carried out."""

from __future__ import annotations


class QueryRefused(Exception):
    """Nothing was done; the message says what was expected."""
