"""Forms with which admins make and change users."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.auth.validators import UnicodeUsernameValidator

from dashboard.core.filter_forms import FilterForm
from dashboard.core.roles import Role

MAX_NAME = 150
LETTERS = "Expected letters, digits and any of @ . + - _."
NONE = "none"
"""In a form: no role."""
ROLES = [(role.value, role.value) for role in reversed(Role)]


class UserForm(forms.Form):
    """A form that makes a user."""

    name = forms.CharField(
        max_length=MAX_NAME,
        validators=[UnicodeUsernameValidator(message=LETTERS)],
    )
    role = forms.ChoiceField(choices=ROLES, initial=Role.MANAGER.value)

    def __init__(self, data: Any = None) -> None:
        super().__init__(data, auto_id="%s")
        self.fields["name"].widget.attrs |= {"autocomplete": "off", "spellcheck": "false"}

    def role_of(self) -> Role:
        """Return the role of a valid form."""
        return Role(self.cleaned_data["role"])


class RoleForm(forms.Form):
    """A form that gives a user another role, or none."""

    role = forms.ChoiceField(choices=[*ROLES, (NONE, "no role")])

    def __init__(self, data: Any = None, role: Role | None = None) -> None:
        initial = {"role": role.value if role else NONE}
        super().__init__(data, auto_id="%s", initial=initial)

    def role_of(self) -> Role | None:
        """Return the role of a valid form."""
        name = self.cleaned_data["role"]
        return None if name == NONE else Role(name)


class SearchForm(FilterForm):
    """A form that filters a list of users."""

    q = forms.CharField(required=False, max_length=MAX_NAME, label="Part of a name")
