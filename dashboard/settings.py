"""Django's settings, derived from `config.settings`; secure by default."""

from __future__ import annotations

from pathlib import Path

import dj_database_url
from csp.constants import NONE, SELF

from config.entry import enter

BASE_DIR = Path(__file__).resolve().parent.parent
TALLYBOARD = enter()
DATA_DIR = TALLYBOARD.data_dir

SECRET_KEY = TALLYBOARD.web_secret()
DEBUG = False
ALLOWED_HOSTS = [host.strip() for host in TALLYBOARD.allowed_hosts.split(",") if host.strip()]
ROOT_URLCONF = "dashboard.urls"
FORM_RENDERER = "django.forms.renderers.TemplatesSetting"
ASGI_APPLICATION = "dashboard.asgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
LANGUAGE_CODE = "en"
USE_TZ = True
TIME_ZONE = "UTC"

INSTALLED_APPS = [
    "daphne",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.forms",
    "channels",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "dashboard.core.accounts.apps.NotedSessionsConfig",  # allauth.usersessions
    "csp",
    "django_htmx",
    "django_celery_beat",
    "django_celery_results",
    "dashboard.core.accounts",
    "dashboard.core.audit",
    "dashboard.core.states",
    "dashboard.core.job",
    "dashboard.core.rules",
    "dashboard.watch.commands",
    "dashboard.watch.agents",
    "dashboard.watch.annotations",
    "dashboard.watch.incidents",
    "dashboard.watch.filters",
    "dashboard.watch.bulk",
    "dashboard.notify.notifications",
    "dashboard.notify.summaries",
    "dashboard.operate.dead_letters",
    "dashboard.operate.console",
    "dashboard.operate.requests",
    "dashboard.operate.scenarios",
    "dashboard.operate.administration",
    "dashboard.retail",
    "dashboard.board.live",
    "dashboard.board.assets",
    "dashboard.board.handover",
    "dashboard.serve.materialiser",
    "dashboard.serve.server",
    "dashboard.serve.api",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "dashboard.serve.server.request_log.log_requests",
    "csp.middleware.CSPMiddleware",
    "dashboard.core.api.problems.ApiMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.auth.middleware.LoginRequiredMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "dashboard.core.accounts.middleware.MethodMiddleware",
    "dashboard.core.accounts.middleware.AccountFormsMiddleware",
    "dashboard.core.accounts.middleware.LoginEventsMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "dashboard.core.accounts.middleware.SessionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "dashboard.operate.dead_letters.queries.open_letters",
                "dashboard.notify.notifications.channel_views.resting_channels",
            ],
        },
    }
]

# ---- database, cache, channels, worker ----------------------------------------------------


def _database() -> dict:
    database = dict(dj_database_url.parse(TALLYBOARD.database))
    if database["ENGINE"] == "django.db.backends.sqlite3":
        # One writer at a time: take the write lock at once rather than fail when upgrading.
        database["OPTIONS"] = {
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            # Of a large database 2 MB in memory, as it comes, are too little: KiB.
            "init_command": (
                "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA cache_size=-32768;"
            ),
        }
    return database


DATABASES = {"default": _database()}

CACHE_ENTRIES = {
    "default": 200_000,
    "limits": 100_000,
    "visitors": 100_000,
    "captchas": 100_000,
    "figures": 10_000,
}
"""Most entries of each cache, about 0.4 KB each; the least used go first.

`default` is that of the login's limits, as the login library knows no other: whoever is not logged
in fills it, an entry for each address and name. `limits` has those of users who are: an entry for
each user and kind. `visitors` has those of status pages: an entry for each network. `captchas` has
two for each captcha that was solved. `figures` has what can be counted anew. None pushes another's
entries out.
"""


def _cache(name: str) -> dict:
    if TALLYBOARD.redis_url:
        backend = "django.core.cache.backends.redis.RedisCache"
        return {"BACKEND": backend, "LOCATION": TALLYBOARD.redis_url, "KEY_PREFIX": name}
    return {
        "BACKEND": "django.core.cache.backends.locmem.LocMemCache",
        "LOCATION": name,
        "OPTIONS": {"MAX_ENTRIES": CACHE_ENTRIES[name]},
    }


CACHES = {name: _cache(name) for name in CACHE_ENTRIES}

if TALLYBOARD.redis_url:
    CELERY_BROKER_URL = TALLYBOARD.redis_url
else:
    CELERY_BROKER_URL = "filesystem://"
    CELERY_BROKER_TRANSPORT = "dashboard.core.common.queues:Transport"
    CELERY_BROKER_TRANSPORT_OPTIONS = {
        "data_folder_in": str(DATA_DIR / "celery" / "queue"),
        "data_folder_out": str(DATA_DIR / "celery" / "queue"),
        "control_folder": str(DATA_DIR / "celery" / "control"),
        "polling_interval": 0.1,
    }

CELERY_RESULT_BACKEND = "django-db"
CELERY_RESULT_EXTENDED = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_TRACK_STARTED = True
CELERY_TASK_ROUTES = {
    "dashboard.notify.notifications.tasks.*": {"queue": "notifications"},
    "dashboard.watch.agents.tasks.watch_agents": {"queue": "notifications"},
}
CELERY_WORKER_CONCURRENCY = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BEAT_SCHEDULER = "dashboard.core.common.queues:OneScheduler"
CELERY_TIMEZONE = "UTC"
CELERY_BEAT_SCHEDULE = {
    "bulk": {
        "task": "dashboard.watch.bulk.tasks.carry_on",
        "schedule": 5.0,
        "options": {"expires": 5.0},  # of those that a busy worker did not get to, one is enough
    },
    "notifications": {
        "task": "dashboard.notify.notifications.tasks.carry_on",
        "schedule": 1.0,
        "options": {"expires": 1.0},
    },
    "watch-agents": {
        "task": "dashboard.watch.agents.tasks.watch_agents",
        "schedule": 5.0,
        "options": {"expires": 5.0},
    },
    "labels": {
        "task": "dashboard.watch.annotations.tasks.carry_on",
        "schedule": 5.0,
        "options": {"expires": 5.0},
    },
    "summaries": {
        "task": "dashboard.notify.summaries.tasks.sum_up",
        "schedule": 5.0,
        "options": {"expires": 5.0},
    },
    "budgets": {
        "task": "dashboard.notify.summaries.tasks.watch_budgets",
        "schedule": 60.0,
        "options": {"expires": 55.0},
    },
    "check-figures": {
        "task": "dashboard.notify.summaries.tasks.check_nightly",
        "schedule": 600.0,
        "options": {"expires": 600.0},
    },
    "maintenance": {
        "task": "dashboard.watch.incidents.tasks.keep_windows",
        "schedule": 5.0,
        "options": {"expires": 5.0},
    },
    "digests": {
        "task": "dashboard.notify.summaries.tasks.send_digests",
        "schedule": 60.0,
        "options": {"expires": 55.0},
    },
    "judge-replays": {
        "task": "dashboard.operate.requests.tasks.judge_ended",
        "schedule": 10.0,
        "options": {"expires": 10.0},
    },
    "count-votes": {
        "task": "dashboard.watch.agents.tasks.count_votes",
        "schedule": 60.0,
        "options": {"expires": 55.0},
    },
    "snapshot": {"task": "dashboard.core.rules.tasks.snapshot_daily", "schedule": 3600.0},
    "judge-buckets": {"task": "dashboard.core.rules.tasks.judge_daily", "schedule": 3600.0},
    "retention": {
        "task": "dashboard.operate.administration.tasks.apply_retention",
        "schedule": 3600.0,
    },
}

# ---- people -------------------------------------------------------------------------------

AUTHENTICATION_BACKENDS = ["allauth.account.auth_backends.AuthenticationBackend"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {
        "NAME": "django.contrib.auth.password_validation.MinimumLengthValidator",
        "OPTIONS": {"min_length": 12},
    },
    {"NAME": "dashboard.core.accounts.login.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]
LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = "/"
ACCOUNT_ADAPTER = "dashboard.core.accounts.login.ClosedAdapter"
ACCOUNT_FORMS = {"login": "dashboard.core.accounts.forms.GuardedLoginForm"}
ACCOUNT_LOGIN_METHODS = {"username"}
ACCOUNT_SIGNUP_FIELDS = ["username*", "password1*", "password2*"]
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_LOGOUT_ON_GET = False
ACCOUNT_SESSION_REMEMBER = False
ALLAUTH_TRUSTED_PROXY_COUNT = TALLYBOARD.trusted_proxies
ACCOUNT_RATE_LIMITS = {
    "login": "30/m/ip",
    "login_failed": "10/m/ip,5/5m/key",
    "reauthenticate_failed": "5/5m/key",  # our own: dashboard.core.accounts.login
}
MFA_FORMS = {
    "authenticate": "dashboard.core.accounts.forms.LoginCodeForm",
    "activate_totp": "dashboard.core.accounts.forms.SetUpCodeForm",
    "reauthenticate": "dashboard.core.accounts.login.CodeForm",
}
MFA_SUPPORTED_TYPES = ["totp", "recovery_codes"]
MFA_ADAPTER = "dashboard.core.accounts.encryption.SealedFactors"
MFA_TOTP_ISSUER = "Tallyboard"
MFA_TOTP_TOLERANCE = 1  # codes of the half minute before and after, as RFC 6238, 5.2 advises
EMAIL_BACKEND = "django.core.mail.backends.console.EmailBackend"

# ---- what the browser is told ---------------------------------------------------------------

SESSION_ENGINE = "dashboard.core.accounts.sessions"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_SAMESITE = "Lax"
CSRF_FAILURE_VIEW = "dashboard.core.accounts.views.csrf_failure"
# A browser takes a cookie with this prefix from this host over HTTPS alone.
_HOST = "__Host-" if TALLYBOARD.https else ""
SESSION_COOKIE_NAME = f"{_HOST}tallyboard-{TALLYBOARD.http_port}"
CSRF_COOKIE_NAME = f"{_HOST}tallyboard-csrf-{TALLYBOARD.http_port}"
MESSAGE_STORAGE = "django.contrib.messages.storage.session.SessionStorage"  # no third cookie
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = TALLYBOARD.https
if TALLYBOARD.https:  # behind a proxy that ends TLS and sets this header itself
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
# Sent over HTTPS alone, so it costs nothing where there is none.
SECURE_HSTS_SECONDS = 31_536_000
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "img-src": [SELF, "data:"],
        "object-src": [NONE],
        "worker-src": [SELF],
        "base-uri": [NONE],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
    }
}
DATA_UPLOAD_MAX_MEMORY_SIZE = 2_621_440

STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
# Served from where they lie: nothing to collect before a start, nothing stale after an update.
WHITENOISE_USE_FINDERS = True

# structlog writes the lines (config.logs); Django's own loggers go the same way.
LOGGING_CONFIG = None
