"""The version of an asset's state: the record it is based on, and the epoch."""

from __future__ import annotations

from typing import NamedTuple

MAX_EPOCH = 999_999
"""The highest epoch that fits into the sortable form."""


class Version(NamedTuple):
    """`epoch.offset.step`, compared as three integers.

    epoch: incremented when the job's checkpoint is replaced; offset: source offset of the last
    record applied to the asset; step: number of changes by time alone since that record.
    """

    epoch: int
    offset: int
    step: int

    def __str__(self) -> str:
        return f"{self.epoch}.{self.offset}.{self.step}"

    @classmethod
    def parse(cls, text: str) -> Version:
        """Return the version in `1.42.0` or in the sortable form.

        Raises ValueError for anything else.
        """
        parts = text.split(".")
        if len(parts) != 3 or not all(part.isascii() and part.isdigit() for part in parts):
            raise ValueError(
                f"version: expected epoch.offset.step, for example 1.42.0, got {text!r}"
            )
        return cls(*(int(part) for part in parts))

    def sortable(self) -> str:
        """Return the version as text that sorts like the three integers (40 characters)."""
        return f"{self.epoch:06d}.{self.offset:019d}.{self.step:013d}"

    def in_log(self) -> tuple[int, int]:
        """Return offset and step.

        A command's `if_version` compares only these, whatever the epoch.
        """
        return (self.offset, self.step)
