"""The names of what the web side counts, each with its meaning."""

from prometheus_client import Counter, Gauge

MATERIALISED = Counter(
    "tallyboard_materialised_records_total", "Sink records written into the database", ["topic"]
)
DIVERGENCES = Counter(
    "tallyboard_divergences_total", "State records of one version with two contents", ["scenario"]
)
UNREADABLE = Counter(
    "tallyboard_unreadable_sink_records_total", "Sink records that could not be read", ["topic"]
)
GAPS = Counter("tallyboard_sink_gaps_total", "Starts that a sink topic no longer held", ["topic"])
BATCH_SECONDS = Gauge("tallyboard_materialiser_batch_seconds", "Duration of the last batch, s")
LOG_RECORDS = Counter(
    "tallyboard_log_records_total",
    "Records of the log fetched for a page, by outcome: shown, or why not",
    ["outcome"],
)
