"""The same totals, of invoices that the tills send by customer."""

from __future__ import annotations

from trial_pipelines.store_totals import totals_of

PIPELINE = totals_of("customer-totals", "by-customer")
