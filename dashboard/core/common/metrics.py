"""Names and meanings of the web side's metrics; docs/rest.md lists them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from prometheus_client import Counter
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

# ---- counted in the web process ---------------------------------------------------------------

UNREADABLE = Counter(
    "tallyboard_unreadable_sink_records_total",
    "Sink records that this web process could not read",
    ["topic"],
)
API_REQUESTS = Counter(
    "tallyboard_api_requests_total",
    "Requests under /api, by method, route and status",
    ["method", "route", "status"],
)
API_PROBLEMS = Counter(
    "tallyboard_api_problems_total", "Requests refused with a problem, by its reason", ["reason"]
)
API_REPORTS = Counter(
    "tallyboard_api_reports_total",
    "Reports that came over HTTP, by way (reports, alertmanager) and outcome (accepted, a reason)",
    ["way", "outcome"],
)
LIMITED = Counter(
    "tallyboard_limited_total",
    "Requests refused by a limit: requests, commands, reports, fetches, logins, account, "
    "tokens, reviews, tables, labels, forms, acknowledgements, notes, handovers, push, trials, "
    "job-requests, bodies, slow, connections, boards, messages",
    ["limit"],
)
LOG_RECORDS = Counter(
    "tallyboard_log_records_total",
    "Records of the log fetched for a page, by outcome: shown, or why not",
    ["outcome"],
)
AUDITED = Counter(
    "tallyboard_audit_entries_total",
    "Entries of the audit, by outcome: written, or lost (then logged whole)",
    ["outcome"],
)
LOGINS = Counter("tallyboard_logins_total", "Logins, by outcome: ok, failed, limited", ["outcome"])
CAPTCHAS = Counter(
    "tallyboard_captchas_total",
    "Captchas at the login, by outcome: solved, missing, wrong, expired, replayed; unknown where "
    "the board could not say whether one is needed",
    ["outcome"],
)

# ---- read from the database or the broker at each scrape --------------------------------------


MetricFamily = GaugeMetricFamily | CounterMetricFamily


class Metric(NamedTuple):
    """A metric read from the database or the broker at each scrape; `_total` makes it a counter."""

    name: str
    help: str
    labels: tuple[str, ...] = ()

    def family(self, values: Iterable[tuple[tuple[str, ...], float]]) -> MetricFamily:
        """Return the metric with these values, by their labels."""
        kind = CounterMetricFamily if self.name.endswith("_total") else GaugeMetricFamily
        family = kind(self.name, self.help, labels=self.labels)
        for labels, value in values:
            family.add_metric(labels, value)
        return family


_BUCKET = ("scenario", "partition")

BROKER_UP = Metric("tallyboard_broker_up", "1 where the broker answers, else 0")
BUCKET_OFFSET = Metric("tallyboard_bucket_offset", "Last offset that a bucket has applied", _BUCKET)
BUCKET_LOG_TIME = Metric(
    "tallyboard_bucket_log_time_seconds", "Log time that a bucket has reached, Unix s", _BUCKET
)
BUCKET_LAG = Metric(
    "tallyboard_bucket_lag_records", "Records in the log that a bucket has not applied", _BUCKET
)
PIPELINE_STATUS = Metric(
    "tallyboard_pipeline_status", "1 for the status of each pipeline", ("pipeline", "status")
)
PIPELINE_LAG = Metric(
    "tallyboard_pipeline_lag_records", "Records that a pipeline has not read", ("pipeline",)
)
PIPELINE_LAG_SECONDS = Metric(
    "tallyboard_pipeline_lag_seconds",
    "Age of the newest record that a pipeline has read, 0 where nothing waits",
    ("pipeline",),
)
PIPELINE_RESTARTS = Metric(
    "tallyboard_pipeline_restarts", "Restarts of a pipeline since its process began", ("pipeline",)
)
PIPELINE_DEAD_LETTERS = Metric(
    "tallyboard_pipeline_dead_letters", "Records that a pipeline could not read", ("pipeline",)
)
PIPELINE_INVALID_TIMES = Metric(
    "tallyboard_pipeline_invalid_times",
    "Records left out for their time since the last reset: missing, negative, ahead or late",
    ("pipeline", "topic", "reason"),
)
BUCKET_LAG_SECONDS = Metric(
    "tallyboard_bucket_lag_seconds", "How far a bucket's log time is behind now, s", _BUCKET
)
BUCKET_AHEAD_SECONDS = Metric(
    "tallyboard_bucket_ahead_seconds",
    "How far a bucket's clock is ahead of the job's own, s, 0 up to five: anything else is a fault",
    _BUCKET,
)
BROKER_BEHIND_SECONDS = Metric(
    "tallyboard_broker_behind_seconds",
    "How far the clock of a partition's broker is behind the job's own, s, 0 up to five: anything "
    "else is a fault",
    _BUCKET,
)
LATE_REPORTS = Metric(
    "tallyboard_late_reports_total",
    "Reports that came too late, were refused, taken in doubt or without their detail, or came on "
    "another partition, by kind: stale, late, silent, refused, doubtful, detail, forwarded",
    (*_BUCKET, "kind"),
)
BUCKET_ASSETS = Metric("tallyboard_bucket_assets", "Assets of a bucket", _BUCKET)
BUCKET_TIMERS = Metric("tallyboard_bucket_timers", "Timers that wait in a bucket", _BUCKET)
JOB_STATUS = Metric(
    "tallyboard_job_status", "1 for the status that a query told last", ("query", "status")
)
JOB_RESTARTS = Metric(
    "tallyboard_job_restarts",
    "Restarts of a query in the last 30 days, as a gauge; a process that was killed counts",
    ("query",),
)
SINK_LAG = Metric(
    "tallyboard_materialiser_lag_records",
    "State records that the database has not seen yet",
    ("topic", "partition"),
)
MATERIALISED = Metric(
    "tallyboard_materialised_records_total", "Sink records that the database stands for", ("topic",)
)
PASSED_OVER = Metric(
    "tallyboard_materialiser_unreadable_records_total",
    "Sink records that the materialiser passed over, as nothing can read or keep them",
    ("topic",),
)
OUT_OF_TIME = Metric(
    "tallyboard_invoices_out_of_time_total",
    "Records about invoices that are in no sum, as they are too old, or of a time to come",
    ("topic",),
)
GAPS = Metric("tallyboard_sink_gaps_total", "Starts that a sink topic no longer held", ("topic",))
LOWER_EPOCH = Metric(
    "tallyboard_lower_epoch_records_total",
    "State records dropped, as the database has the asset in a higher epoch of the job",
    ("scenario",),
)
MATERIALISER_FAULTS = Metric(
    "tallyboard_materialiser_faults_total",
    "Faults of broker or database after which the materialiser began again",
)
BATCHES = Metric("tallyboard_materialiser_batches_total", "Transactions of the materialiser")
BATCH_SECONDS = Metric("tallyboard_materialiser_batch_seconds_total", "What they took together, s")
TASK_TIME = Metric(
    "tallyboard_task_time_seconds",
    "When a run of a worker's task last had this status, Unix s",
    ("task", "status"),
)
TASK_SECONDS = Metric(
    "tallyboard_task_duration_seconds", "What a task's last successful run took, s", ("task",)
)
SNAPSHOT_TIME = Metric(
    "tallyboard_snapshot_time_seconds",
    "When the newest snapshot of a bucket's fold was taken, Unix s",
    _BUCKET,
)
JUDGED_TIME = Metric(
    "tallyboard_judged_time_seconds",
    "When the plain fold last judged a bucket, Unix s",
    _BUCKET,
)
JUDGED_DIFFERENCES = Metric(
    "tallyboard_judged_differences",
    "Rows and changes of a bucket that the plain fold found wrong when it last judged the bucket",
    _BUCKET,
)
DIVERGED = Metric(
    "tallyboard_divergences_found", "Divergences in the database: anything above 0 is a fault"
)
DOUBTED = Metric(
    "tallyboard_doubted_assets",
    "Assets on the board that are disputed or unconfirmed, or on which an agent is silent or in "
    "doubt",
    ("scenario", "doubt"),
)
DEAD_LETTERS = Metric(
    "tallyboard_dead_letters", "Dead letters in the database", ("status", "reason")
)
REFUSED_COMMANDS = Metric(
    "tallyboard_refused_commands_total",
    "Records that commanded something and were refused for their signature, by topic and reason",
    ("topic", "reason"),
)
NOTIFICATION_DECISIONS = Metric(
    "tallyboard_notification_decisions_total",
    "What rules of notifications decided: the kind of a message, or why there was none",
    ("decision",),
)
MESSAGE_OUTCOMES = Metric(
    "tallyboard_message_outcomes_total",
    "What became of tries of messages: sent, failed, given up, or why they were held or not sent",
    ("outcome",),
)
MESSAGES = Metric("tallyboard_messages", "Messages in the outbox", ("means", "status"))
MESSAGES_OLDEST = Metric(
    "tallyboard_messages_oldest_seconds", "How long the oldest unsent message has waited, s"
)
VIEW_STATUS = Metric(
    "tallyboard_view_status", "1 for how this process's copy of a view fares", ("view", "status")
)
VIEW_ROWS = Metric("tallyboard_view_rows", "Rows of this process's copy of a view", ("view",))
VIEW_BYTES = Metric("tallyboard_view_bytes", "Memory of this process's copy, bytes", ("view",))
VIEW_LAG = Metric(
    "tallyboard_view_lag_records", "Records that this process's copy has not read", ("view",)
)
VIEW_RESTARTS = Metric(
    "tallyboard_view_restarts_total",
    "How often this process's copy began anew, because its topic was another",
    ("view",),
)
VIEW_REFUSED = Metric(
    "tallyboard_view_refused_records_total",
    "Records that can stand in no table, by reason: no-key, other-key",
    ("view", "reason"),
)
APP_LOGS = Metric(
    "tallyboard_app_logs_total",
    "Records of this process's log of clients, by outcome: delivered, or why dropped: buffer-full, "
    "undelivered, too-large, closed, failed",
    ("outcome",),
)
SOCKETS = Metric("tallyboard_sockets_open", "Open sockets of this web process")
