"""The same totals, of invoices by store that went through a topic by customer."""

from __future__ import annotations

from trial_pipelines.store_totals import totals_of

PIPELINE = totals_of("repartition-totals", "repartition")
