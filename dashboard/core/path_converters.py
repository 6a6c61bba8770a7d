"""Path converters."""


class AssetConverter:
    """An asset's name at the end of a path: any characters, slashes among them."""

    regex = r".+"

    def to_python(self, value: str) -> str:
        """The name as the server decoded it."""
        return value

    def to_url(self, value: str) -> str:
        """The name; Django percent-encodes what must be, a slash is left as it is."""
        return value
