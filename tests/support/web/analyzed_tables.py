"""On which tables ANALYZE is run, as JSON.

Run as a program by the tests of PostgreSQL: `python tests/support/web/analyzed_tables.py`.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
TABLES = ("grown", "empty")


def main() -> None:
    """Analyze two tables twice, one of which has rows."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "dashboard.settings"
    import django

    django.setup()
    from django.db import connection

    from dashboard.core.common.sql import analyze_new_tables

    with connection.cursor() as cursor:
        for name in TABLES:
            cursor.execute(f"CREATE TABLE {name} (number integer)")
        cursor.execute("INSERT INTO grown SELECT generate_series(1, 1000)")
        runs = [analyze_new_tables(TABLES) for _ in range(2)]
        cursor.execute("SELECT reltuples FROM pg_class WHERE oid = 'grown'::regclass")
        (rows,) = cursor.fetchone()
    print(json.dumps({"runs": runs, "rows": rows}))


if __name__ == "__main__":
    main()
