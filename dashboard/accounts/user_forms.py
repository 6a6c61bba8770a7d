"""The forms that admins make and change users with."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.auth.validators import UnicodeUsernameValidator

from dashboard.core.roles import Role

MAX_NAME = 150
LETTERS = "Expected letters, digits and any of @ . + - _."
NONE = "none"
"""In a form: no role."""
ROLES = [(role.value, role.value) for role in reversed(Role)]


class UserForm(forms.Form):
    """A user to be made."""

    name = forms.CharField(
        max_length=MAX_NAME,
        validators=[UnicodeUsernameValidator(message=LETTERS)],
    )
    role = forms.ChoiceField(choices=ROLES, initial=Role.MANAGER.value)

    def __init__(self, data: Any = None) -> None:
        super().__init__(data, auto_id="%s", label_suffix="")
        self.fields["name"].widget.attrs |= {"autocomplete": "off", "spellcheck": "false"}

    def role_of(self) -> Role:
        """The role of a form that is valid."""
        return Role(self.cleaned_data["role"])


class RoleForm(forms.Form):
    """Another role for a user, or none."""

    role = forms.ChoiceField(choices=[*ROLES, (NONE, "no role")])

    def __init__(self, data: Any = None, role: Role | None = None) -> None:
        initial = {"role": role.value if role else NONE}
        super().__init__(data, auto_id="%s", label_suffix="", initial=initial)

    def role_of(self) -> Role | None:
        """The role of a form that is valid."""
        name = self.cleaned_data["role"]
        return None if name == NONE else Role(name)


class SearchForm(forms.Form):
    """Which users a list shows."""

    q = forms.CharField(required=False, max_length=MAX_NAME, label="Part of a name")
