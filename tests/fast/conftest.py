"""What keeps these tests fast."""

from quick import quick_passwords, quick_readers  # noqa: F401 - fixtures
