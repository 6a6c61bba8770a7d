"""What can be audited: the one list of actions, each with its meaning."""

from __future__ import annotations

ACTIONS: dict[str, str] = {
    # ---- assets
    "command.set": "a state was pinned (an override)",
    "command.vote": "a vote was given by hand",
    "command.release": "an override was ended, an own vote withdrawn",
    "command.purge": "an asset was taken off the board",
    "bulk.started": "one command was asked for of many assets",
    "bulk.stopped": "a run over many assets was stopped",
    "note.written": "a note was written to an asset",
    "note.removed": "a note was taken away",
    "asset.acknowledged": "somebody took an asset's state on",
    "asset.unacknowledged": "an acknowledgement was taken back",
    "shift.began": "somebody took a shift over",
    "shift.ended": "somebody's shift ended",
    "handover.written": "a text was written for the next shift",
    "labels.changed": "labels of assets were changed",
    "filter.shared": "a saved filter was offered to others",
    "filter.unshared": "a shared filter was taken back",
    # ---- agents, rules, the job
    "agent.muted": "the votes of an agent were made to weigh nothing",
    "agent.unmuted": "the mute of an agent was ended",
    "rule.changed": "a scenario's rule was changed from the console",
    "rule.reverted": "a scenario's rule from the console was taken back",
    "job.stop": "a query was asked to stop",
    "job.start": "a query was asked to start",
    "job.reload": "a query was asked to read the scenarios anew",
    "job.reset": "a query was asked to read from other offsets",
    "job.rebuild": "a query was asked to build its states anew",
    "job.rule": "a query was asked to take another rule",
    "job.what-if": "a query was asked what another rule would have made",
    "job.read-state": "a query was asked what its state store holds",
    # ---- dead letters and files
    "letter.redriven": "dead letters were sent again",
    "letter.discarded": "dead letters were discarded",
    "export.letters": "dead letters were taken out as a file",
    "export.events": "events were taken out as a file",
    "export.audit": "the audit was taken out as a file",
    # ---- one's own login
    "login.ok": "somebody logged in",
    "login.failed": "a wrong name, password or code was given",
    "login.limited": "a login was refused after too many wrong ones",
    "logout": "somebody logged out",
    "password.changed": "somebody changed the own password",
    "factor.added": "a second factor or its recovery codes were set up",
    "factor.removed": "a second factor or its recovery codes were taken away",
    "factor.renewed": "new recovery codes were made",
    "session.ended": "sessions were ended",
    "token.issued": "an API token was made",
    "token.revoked": "an API token was revoked",
    # ---- users
    "user.created": "a user was made",
    "user.role": "a user was given another role",
    "user.deactivated": "a user was deactivated",
    "user.reactivated": "a user was made active again",
    "user.password-reset": "a user was given a password for one login",
    # ---- the audit itself
    "audit.pruned": "entries past their time were dropped",
}
"""An action's name, and what an entry of it says. Names are never taken away or given twice."""
