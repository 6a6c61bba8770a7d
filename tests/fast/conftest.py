"""What these tests are given, and what keeps them fast."""

from fixtures import admin, bus, client, world  # noqa: F401 - fixtures
from quick import nobody_remembered, quick_passwords, quick_readers  # noqa: F401 - fixtures
from spaces import pages_laid_out  # noqa: F401 - a fixture
