"""Validators of new passwords."""

from __future__ import annotations

import re
from typing import Any

from django.contrib.auth import password_validation

# What people put around a word that is too short: digits and signs.
AROUND = re.compile(r"^[\W\d_]+|[\W\d_]+$")


class CommonPasswordValidator(password_validation.CommonPasswordValidator):
    """A validator that refuses Django's 20,000 common passwords.

    Also repeated ones, and ones with digits and signs around.
    """

    def validate(self, password: str, user: Any = None) -> None:
        """Raise ValidationError for such a password."""
        for common in {password, AROUND.sub("", password), _repeated(password)}:
            super().validate(common, user)


def _repeated(password: str) -> str:
    """Return the text that the password repeats; the password itself where it repeats none."""
    match = re.fullmatch(r"(.+?)\1+", password, re.DOTALL)
    return match[1] if match else password
