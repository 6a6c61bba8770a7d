"""Where an asset is: from its name by its hash to a partition, its bucket and its row."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django import forms

from dashboard.console.partitions import Partition
from dashboard.core.fields import scenario_choices
from dashboard.core.scenarios import scenarios
from dashboard.states.board_rows import asset_path
from dashboard.states.models import AssetState
from dashboard.states.newest import record_of
from domain.names import CONTROL, MAX_NAME
from domain.scenario import Scenario
from domain.version import Version
from wire.partitioner import murmur2, partition_of


class KeyForm(forms.Form):
    """Which asset is looked for."""

    use_required_attribute = False
    scenario = forms.ChoiceField(choices=scenario_choices)
    asset = forms.CharField(
        label="Where is an asset?",
        strip=False,
        widget=forms.TextInput(
            attrs={
                "type": "search",
                "placeholder": "its whole name",
                "autocomplete": "off",
                "spellcheck": "false",
            }
        ),
        error_messages={"required": "Expected a name: 1 to 255 characters."},
    )

    def __init__(self, data: Any = None, scenario: str = "") -> None:
        """Prepare the form. scenario: the one that is chosen at first."""
        super().__init__(data, auto_id="key-%s", initial={"scenario": scenario})
        wrong = f"Expected one of: {', '.join(scenarios())}."
        self.fields["scenario"].error_messages |= {"required": wrong, "invalid_choice": wrong}

    def clean_asset(self) -> str:
        """Return the name. Raises ValidationError where the wire does not allow it."""
        name: str = self.cleaned_data["asset"]
        if len(name) > MAX_NAME:
            raise forms.ValidationError(
                f"Expected at most {MAX_NAME} characters, got {len(name):,}."
            )
        if CONTROL.search(name):
            raise forms.ValidationError("Expected a name without control characters.")
        return name


@dataclass(frozen=True, slots=True)
class Row:
    """What the board has of an asset. state: None once it is purged; changed_at: Unix ms.

    partition: of the record that its version rests on.
    """

    state: str | None
    version: Version
    changed_at: int
    partition: int


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """An asset's way: the bytes of its name, their hash, the partition, and what is there of it."""

    scenario: Scenario
    asset: str
    size: int
    hash: int
    place: Partition
    row: Row | None

    @property
    def hash_hex(self) -> str:
        """The hash as its 32 bits."""
        return f"0x{self.hash:08x}"

    @property
    def positive(self) -> int:
        """The hash without its sign, as the producer takes it."""
        return self.hash & 0x7FFFFFFF

    @property
    def url(self) -> str:
        """Its page."""
        return asset_path(self.scenario.name, self.asset)

    @property
    def strayed(self) -> bool:
        """Whether its row rests on another partition than the name leads to."""
        return self.row is not None and self.row.partition != self.place.partition


def look_up(scenario: Scenario, asset: str, among: Iterable[Partition]) -> Whereabouts:
    """Follow a name as a producer does. among: every partition as it is now."""
    key = asset.encode()
    at = partition_of(key, scenario.partitions)
    here = (scenario.name, at)
    place = next(row for row in among if (row.scenario, row.partition) == here)
    return Whereabouts(scenario, asset, len(key), murmur2(key), place, _row(scenario.name, asset))


def _row(scenario: str, asset: str) -> Row | None:
    """Return the newest of the asset, as the live view or else the database has it, or None."""
    record = record_of(scenario, asset)
    if record is not None:
        cause = record.cause
        version = Version.parse(record.version)
        return Row(record.state, version, cause.time, cause.partition)
    gone = AssetState.objects.filter(scenario=scenario, asset=asset, purged=True).first()
    if gone is None:
        return None
    at = gone.changed_at if gone.purged_at is None else gone.purged_at
    return Row(None, Version.parse(gone.version), at, gone.partition)
