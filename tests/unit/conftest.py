"""What these tests are given, and what keeps them fast."""

from support.web.fixtures import admin, bus, client, stage, user, world  # noqa: F401 - fixtures
from support.web.page_layout import pages_laid_out  # noqa: F401 - a fixture
from support.web.quick_setup import (  # noqa: F401 - fixtures
    nobody_remembered,
    quick_passwords,
    quick_readers,
    static_files_listed_once,
)
