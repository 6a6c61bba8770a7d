"""The demo's labels: given once to what the demo reports on, and taken away where it is off."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import call_command

from agents.checks import load_targets
from agents.demo.worlds import HOSTED, NETWORKS, SITES
from agents.probe import variables
from config.settings import Settings
from dashboard.watch.annotations import labels as annotation_labels
from dashboard.watch.annotations.labels import put
from dashboard.watch.annotations.models import Label

pytestmark = pytest.mark.django_db

ROOT = Path(__file__).resolve().parents[3]


def switch_off(monkeypatch: pytest.MonkeyPatch) -> None:
    off = settings.TALLYBOARD.model_copy(update={"demo": False})
    monkeypatch.setattr(settings, "TALLYBOARD", off)


def test_all_that_the_demo_reports_on_has_a_customer_a_tier_and_an_owner():
    targets = load_targets(ROOT / "probes.toml", variables(Settings()))
    call_command("demo_labels")
    for scenario, assets in {
        "attack": {*SITES},
        "connectivity": {*NETWORKS, *(target.name for target in targets)},
    }.items():
        labels = annotation_labels.labels_of(scenario, assets)
        assert labels.keys() == assets
        assert all(each.keys() >= {"customer", "owner", "tier"} for each in labels.values())
        assert annotation_labels.state(scenario).chips == ("customer", "tier")


def test_sites_lie_behind_the_networks_in_which_they_stand():
    call_command("demo_labels")
    behind = annotation_labels.causes_of("attack", SITES)
    assert behind == {site: network for network, sites in HOSTED.items() for site in sites}
    networks = annotation_labels.labels_of("connectivity", NETWORKS)
    owners = annotation_labels.labels_of("attack", SITES)
    for site, network in behind.items():
        assert networks[network]["customer"] == owners[site]["customer"]


def test_they_are_given_once_and_nowhere_beside_labels_of_somebody():
    put("attack", {"shop.example": {"tier": "platinum"}}, "olga", 1)
    call_command("demo_labels")
    assert Label.objects.filter(scenario="attack").count() == 1
    Label.objects.filter(scenario="connectivity").delete()
    call_command("demo_labels")
    assert not Label.objects.filter(scenario="connectivity").exists()


def test_without_the_demo_they_go_and_those_of_somebody_stay(monkeypatch: pytest.MonkeyPatch):
    call_command("demo_labels")
    put("attack", {"shop.example": {"tier": "platinum"}}, "olga", 2)
    switch_off(monkeypatch)
    call_command("demo_labels")
    assert list(Label.objects.values_list("asset", "key", "value")) == [
        ("shop.example", "tier", "platinum")
    ]


def test_without_the_demo_none_are_given(monkeypatch: pytest.MonkeyPatch):
    switch_off(monkeypatch)
    call_command("demo_labels")
    assert not Label.objects.exists()
