"""Dead letters: show, diagnose and redrive records that were refused."""
