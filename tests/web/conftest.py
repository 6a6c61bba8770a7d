"""What keeps these tests fast."""

from quick import quick_passwords  # noqa: F401 - a fixture
