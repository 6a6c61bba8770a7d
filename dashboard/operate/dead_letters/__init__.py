"""Records that were refused: shown, diagnosed, sent again."""
