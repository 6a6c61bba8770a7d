"""Secrets in files: a setting that ends in `_FILE` names the file, as is usual in containers."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import InitErrorDetails, PydanticCustomError
from pydantic_settings import BaseSettings, EnvSettingsSource, PydanticBaseSettingsSource

SUFFIX = "_FILE"
"""Suffix of a secret's setting that names its file."""


class SecretFiles(PydanticBaseSettingsSource):
    """The secrets whose files are named in the environment or in `.env`."""

    def __init__(
        self,
        settings_cls: type[BaseSettings],
        secrets: Collection[str],
        *sources: PydanticBaseSettingsSource,
    ) -> None:
        """secrets: names of fields; sources: where files are named, in order of precedence."""
        super().__init__(settings_cls)
        given = [each.env_vars for each in sources if isinstance(each, EnvSettingsSource)]
        self._secrets, self._given = secrets, ChainMap(*map(dict, given))

    def get_field_value(self, _field: FieldInfo | None, field_name: str) -> tuple[Any, str, bool]:
        """Return the contents of a field's file, None without one. Raises ValidationError."""
        setting = f"{self.config['env_prefix']}{field_name}".upper()
        path = self._given.get(f"{setting}{SUFFIX}".lower())
        if not path:
            return None, field_name, False
        if self._given.get(setting.lower()):
            raise _wrong(setting, path, f"expected this or {setting}, not both")
        return _read(setting, path), field_name, False

    def __call__(self) -> dict[str, Any]:
        """Return the secrets by field. Raises ValidationError."""
        contents = {name: self.get_field_value(None, name)[0] for name in self._secrets}
        return {name: secret for name, secret in contents.items() if secret}


def _read(setting: str, path: str) -> str:
    """Return the text of a file without surrounding white space."""
    try:
        text = Path(path).expanduser().read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise _wrong(setting, path, f"cannot be read ({why}): expected a file") from None
    if not text:
        raise _wrong(setting, path, "the file is empty: expected the secret")
    return text


def _wrong(setting: str, path: str, why: str) -> ValidationError:
    error = PydanticCustomError("secret_file", "{why}", {"why": why})
    line = InitErrorDetails(type=error, loc=(f"{setting}{SUFFIX}",), input=path)
    return ValidationError.from_exception_data("Settings", [line])
