"""What these tests are given, and what keeps them fast."""

from support.web.fixtures import (  # noqa: F401 - fixtures
    admin,
    bus,
    channel,
    client,
    gateway,
    headers,
    shop,
    stopped_clock,
    user,
    world,
)
from support.web.page_layout import pages_laid_out  # noqa: F401 - a fixture
from support.web.quick_setup import (  # noqa: F401 - fixtures
    nobody_remembered,
    quick_passwords,
    quick_readers,
    static_files_listed_once,
)
