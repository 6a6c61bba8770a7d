"""Where a scenario's assets are, kept by key in ways that can be asked: copies, shares, a cache."""
