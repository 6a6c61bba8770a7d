"""Changes on their way to the browsers."""
