"""All that is deleted with time, as each package declares it."""

from __future__ import annotations

from dashboard.accounts.retention import KEPT as ACCOUNTS
from dashboard.agents.models import KEPT as AGENTS
from dashboard.annotations.models import KEPT as ANNOTATIONS
from dashboard.audit.retention import KEPT as AUDIT
from dashboard.bulk.retention import KEPT as BULK
from dashboard.console.samples import KEPT as SAMPLES
from dashboard.core.retention import Retention, Thinning
from dashboard.dead_letters.retention import KEPT as DEAD_LETTERS
from dashboard.digests.models import KEPT as DIGESTS
from dashboard.incidents.retention import KEPT as INCIDENTS
from dashboard.invoices.models import KEPT as INVOICES
from dashboard.job.retention import KEPT as JOB
from dashboard.labels.retention import KEPT as LABELS
from dashboard.maintenance.retention import KEPT as MAINTENANCE
from dashboard.notifications.retention import KEPT as NOTIFICATIONS
from dashboard.replays.models import KEPT as REPLAYS
from dashboard.schedules.retention import KEPT as SCHEDULES
from dashboard.state_store.models import KEPT as READINGS
from dashboard.states.retention import KEPT as STATES
from dashboard.summaries.retention import KEPT as SUMMARIES
from dashboard.what_if.models import KEPT as TRIALS

KEPT: tuple[Retention | Thinning, ...] = (
    *STATES,
    *LABELS,
    *AGENTS,
    *ANNOTATIONS,
    *INCIDENTS,
    *MAINTENANCE,
    *NOTIFICATIONS,
    *SUMMARIES,
    *DIGESTS,
    *DEAD_LETTERS,
    *BULK,
    *SCHEDULES,
    *JOB,
    *SAMPLES,
    *READINGS,
    *TRIALS,
    *INVOICES,
    *REPLAYS,
    *ACCOUNTS,
    *AUDIT,
)
"""What is deleted once it is past its time, in this order."""
