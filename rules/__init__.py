"""Rules written by users: each module is a rule, and scenarios.toml refers to it by name.

`rule = { kind = "python", function = "loudest" }` selects the function `tally` of
`rules/loudest.py`:

    def tally(votes: tuple[Vote, ...], current: str | None) -> str

votes: the votes to consider (domain.records.Vote), at least one, sorted by agent. These are the
live votes and, when the question is whether the state may become milder, also silent ones. current:
the state so far, or None if there is none yet. The function returns the name of a state of the
scenario.

It must be a pure function of these two arguments: the board is a pure function of the log, and a
replay calls the rule again. It must not read a clock, file, network or setting, use random numbers,
keep anything between calls, or depend on the order of a set (which differs between processes).

If the function raises, or returns anything other than a state of the scenario, the state stays as
it is. The first failure of each kind is logged.

A change of its code is not in the log. Give a changed rule a new name (`loudest_2`), and keep the
old module as long as a log, a checkpoint or a snapshot refers to it.
"""
