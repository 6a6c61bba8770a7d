"""Why an errand is not carried out."""

from __future__ import annotations


class ErrandRefused(Exception):
    """Nothing was done; the message says what was expected."""
