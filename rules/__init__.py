"""Rules that users write: each module is one, and scenarios.toml names it.

`rule = { kind = "python", function = "loudest" }` means the function `tally` of `rules/loudest.py`:

    def tally(votes: tuple[Vote, ...], current: str | None) -> str

votes: the votes to be looked at (domain.records.Vote), at least one, sorted by agent: the live ones
and, where it is asked whether the state may get milder, silent ones too; current: the state so
far, or None where there is none yet. It returns the name of a state of the scenario.

It must be a pure function of these two: the board is a pure function of the log, and a replay
calls the rule again. So it reads no clock, file, network or setting, draws no random number, keeps
nothing between calls, and does not let the order of a set decide (it differs between processes).

A function that raises, or that returns anything else than a state of the scenario, leaves the
state as it is; the first of each kind of failure is logged.

A change of its code is not in the log: give a changed rule a new name (`loudest_2`), and keep the
old module as long as a log, a checkpoint or a snapshot names it.
"""
