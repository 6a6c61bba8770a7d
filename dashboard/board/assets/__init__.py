"""The pages of boards and of one asset: events, overrides, the past, the palette."""
