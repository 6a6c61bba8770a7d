"""The actions that can be audited: the one list of them, each with its meaning."""

from __future__ import annotations

ACTIONS: dict[str, str] = {
    # ---- assets
    "command.set": "pinned a state",
    "command.vote": "voted by hand",
    "command.release": "released a pin, or withdrew the own vote",
    "command.purge": "purged an asset",
    "command.refused": "refused what was commanded without a right signature",
    "bulk.started": "started one command for many assets",
    "bulk.stopped": "paused or cancelled a run over many assets",
    "note.written": "wrote a note",
    "note.removed": "deleted a note",
    "asset.acknowledged": "acknowledged an asset",
    "asset.unacknowledged": "took an acknowledgement back",
    "shift.began": "took a shift over",
    "shift.ended": "ended the own shift",
    "handover.written": "wrote to the next shift",
    "labels.changed": "changed labels",
    "filter.shared": "shared a saved filter",
    "filter.unshared": "stopped sharing a filter",
    # ---- agents, rules, the job
    "agent.muted": "muted an agent",
    "agent.unmuted": "unmuted an agent",
    "rule.changed": "changed a rule from the console",
    "rule.reverted": "took a change of a rule back",
    "job.stop": "asked a query to stop",
    "job.start": "asked a query to start",
    "job.reload": "asked a query to read the scenarios again",
    "job.reset": "asked a query to read from other offsets",
    "job.rebuild": "asked a query to build its states again",
    "job.rule": "asked a query to take another rule",
    "job.what-if": "tried another rule on the past",
    "job.read-state": "had the state store read",
    # ---- dead letters and files
    "letter.redriven": "sent dead letters again",
    "letter.discarded": "discarded dead letters",
    "export.letters": "downloaded dead letters",
    "export.board": "downloaded a board",
    "export.events": "downloaded events",
    "export.audit": "downloaded the audit",
    # ---- one's own login
    "login.ok": "logged in",
    "login.failed": "gave a wrong name, password or code",
    "login.limited": "was refused a login after too many wrong ones",
    "logout": "logged out",
    "password.changed": "changed the own password",
    "factor.added": "set up a second factor or its recovery codes",
    "factor.removed": "took a second factor or its recovery codes away",
    "factor.renewed": "made new recovery codes",
    "session.ended": "ended sessions",
    "token.issued": "made an API token",
    "token.revoked": "revoked an API token",
    # ---- the keys that sign commands
    "keys.rotated": "made a new key that signs commands",
    "keys.retired": "withdrew a key that signs commands",
    # ---- users
    "user.created": "made a user",
    "user.role": "changed a user's role",
    "user.deactivated": "deactivated a user",
    "user.reactivated": "reactivated a user",
    "user.password-reset": "gave a user a password for one login",
    # ---- the audit itself
    "audit.pruned": "dropped entries past their time",
}
"""An action's name, and what somebody did, as said after their name. Names are never taken away or
given twice."""
