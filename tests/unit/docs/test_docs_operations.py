"""docs/operations.md tells of what the commands can do."""

from __future__ import annotations

from pathlib import Path

from django.conf import settings
from django.core.management import load_command_class
from django.core.management.base import BaseCommand

from dashboard.core.accounts import tokens

TEXT = Path(settings.BASE_DIR, "docs", "operations.md").read_text()


def options(command: BaseCommand) -> set[str]:
    """The long options of a command that are its own."""
    theirs = BaseCommand().create_parser("manage.py", "any")
    parser = command.create_parser("manage.py", "one")
    known = {text for action in theirs._actions for text in action.option_strings}
    ours = {text for action in parser._actions for text in action.option_strings}
    return {text for text in ours - known if text.startswith("--")}


def test_every_option_of_the_token_command_is_told():
    own = options(load_command_class("dashboard.core.accounts", "token"))
    assert own == {"--label", "--scope", "--days", "--list", "--revoke"}
    assert [option for option in sorted(own) if option not in TEXT] == []
    assert [scope for scope in tokens.SCOPES if f"`{scope}`" not in TEXT] == []
