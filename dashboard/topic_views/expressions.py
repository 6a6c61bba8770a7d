"""Regular expressions of keys, which people type: none takes longer than in proportion to the key.

RE2 goes through a key once, whatever the expression. Python's `re` goes back and tries again, so
that one such as `(a+)+b` could hold up a web process for hours; so do Java's, which Spark has, and
SQLite has none of its own.
"""

from __future__ import annotations

from collections.abc import Callable

import re2

MAX_EXPRESSION = 255
"""Longest expression, characters."""
MAX_PROGRAM = 2_000
"""Most steps of one as RE2 compiles it: of short texts, repetitions make it long."""
MAX_MEMORY = 1 << 20
"""What RE2 may take for one, bytes."""


class BadExpression(ValueError):
    """A text that is no expression that is taken; the message says why."""


def expression(text: str) -> Callable[[bytes], bool]:
    """Return a function that says whether a whole key matches a regular expression.

    Raises BadExpression.
    """
    options = re2.Options()
    options.max_mem, options.never_capture, options.log_errors = MAX_MEMORY, True, False
    if len(text) > MAX_EXPRESSION:
        raise BadExpression(f"at most {MAX_EXPRESSION} characters")
    try:
        compiled = re2.compile(text.encode(), options=options)
    except re2.error as error:
        why = error.args[0].decode(errors="replace") if error.args else "it cannot be read"
        raise BadExpression(f"a regular expression as RE2 has them: {why}") from None
    except UnicodeEncodeError:
        raise BadExpression("a text in UTF-8") from None
    if compiled.programsize > MAX_PROGRAM:
        raise BadExpression(
            f"an expression of at most {MAX_PROGRAM:,} steps, it has {compiled.programsize:,}: use "
            "fewer repetitions"
        )
    fullmatch = compiled.fullmatch
    return lambda key: fullmatch(key) is not None
