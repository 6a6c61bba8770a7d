"""What a new password must not be."""

from __future__ import annotations

import re
from typing import Any

from django.contrib.auth import password_validation

AROUND = re.compile(r"^[\W\d_]+|[\W\d_]+$")
"""What people put around a word that is too short: digits and signs."""


class CommonPasswordValidator(password_validation.CommonPasswordValidator):
    """Refuses Django's 20,000 common passwords, also repeated or with digits and signs around."""

    def validate(self, password: str, user: Any = None) -> None:
        """Raise ValidationError for such a password."""
        for common in {password, AROUND.sub("", password), _repeated(password)}:
            super().validate(common, user)


def _repeated(password: str) -> str:
    """What the password is a repetition of; itself where it is none."""
    found = re.fullmatch(r"(.+?)\1+", password, re.DOTALL)
    return found[1] if found else password
