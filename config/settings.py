"""One settings file. Everything that differs between sites comes from the environment.

Without any variable set, Staffloop runs embedded: SQLite, and Celery over a folder, all under var/.
"""

from datetime import timedelta
from pathlib import Path

import csp.constants
from django.core.exceptions import ImproperlyConfigured

from config.environment import (
    cache_settings,
    env,
    name_list,
    one_of,
    optional_token,
    positive_int,
    rate,
    secret_key,
    storage_settings,
    strict_bool,
)
from config.logs import logging_settings
from simworkers import logs

BASE_DIR = Path(__file__).resolve().parent.parent
VAR_DIR = Path(env.str("STAFFLOOP_VAR", default=str(BASE_DIR / "var"))).resolve()
VAR_DIR.mkdir(parents=True, exist_ok=True)

EMBEDDED = env.str("DATABASE_URL", default="") == ""
DEBUG = strict_bool("DEBUG", False)
SECRET_KEY = secret_key(embedded=EMBEDDED, var_dir=VAR_DIR)
ALLOWED_HOSTS = name_list("ALLOWED_HOSTS", ["127.0.0.1", "localhost", "[::1]"])
CSRF_TRUSTED_ORIGINS = name_list("CSRF_TRUSTED_ORIGINS", [])

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "knox",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "csp",
    "quiz",
    "labs",
]

MIDDLEWARE = [
    "config.health.ProbeMiddleware",
    "config.logs.RequestLogMiddleware",
    "config.metrics.RequestMetricsMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "config.static.StaticFilesMiddleware",
    "csp.middleware.CSPMiddleware",
    "config.middleware.ApiHeadersMiddleware",
    "config.body_limit.BodyLimitMiddleware",
    "config.middleware.QueryMiddleware",
    "config.middleware.CharsetMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.http.ConditionalGetMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "config.urls"
ASGI_APPLICATION = "config.asgi.application"
WSGI_APPLICATION = "config.wsgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "config" / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

# Database -----------------------------------------------------------------------------------------

if EMBEDDED:
    DATABASES = {
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": VAR_DIR / "db.sqlite3",
            "OPTIONS": {
                # A deferred transaction that turns writer fails at once with "database is locked".
                "transaction_mode": "IMMEDIATE",
                "timeout": 30,
                "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
            },
            "TEST": {"NAME": VAR_DIR / "test.sqlite3"},
        }
    }
else:
    DATABASES = {"default": env.db("DATABASE_URL")}
    if "sqlite" in str(DATABASES["default"]["ENGINE"]):
        raise ImproperlyConfigured("DATABASE_URL must name PostgreSQL; leave it unset for embedded SQLite")
    # A connection for each request and task, unless the URL says conn_max_age; one that outlived a restart of the
    # server is then replaced. A server that does not answer is an error soon, not a hanging worker.
    DATABASES["default"]["CONN_HEALTH_CHECKS"] = True
    DATABASES["default"]["OPTIONS"] = {"connect_timeout": 10, **env.db("DATABASE_URL").get("OPTIONS", {})}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# Celery -------------------------------------------------------------------------------------------

BROKER_URL = env.str("BROKER_URL", default="filesystem://")
RUN_TIME_LIMIT_S = positive_int("STAFFLOOP_RUN_TIME_LIMIT_S", 150)
# The explore sweep of a lab is computed once for everybody: a hundred runs in a row.
EXPLORE_TIME_LIMIT_S = positive_int("STAFFLOOP_EXPLORE_TIME_LIMIT_S", 1200)
RUN_MEMORY_LIMIT_BYTES = positive_int("STAFFLOOP_RUN_MEMORY_LIMIT_MIB", 4096) * 2**20
RUN_LEASE_S = positive_int("STAFFLOOP_RUN_LEASE_S", 15)
RUN_HEARTBEAT_S = 1.0
RUN_MAX_TRIES = positive_int("STAFFLOOP_RUN_MAX_TRIES", 3)
RUN_REPORT_LIMIT_BYTES = 2 * 2**20
RUNS_ACTIVE_PER_LEARNER = positive_int("STAFFLOOP_RUNS_ACTIVE_PER_LEARNER", 4)
SWEEP_INTERVAL_S = positive_int("STAFFLOOP_SWEEP_INTERVAL_S", 5)
# How long a queued run may wait before its message is sent once more.
SWEEP_RESEND_S = positive_int("STAFFLOOP_SWEEP_RESEND_S", 10)
# A run expected to take longer than this is long; every worker with two slots keeps one free of long runs.
RUN_LONG_S = positive_int("STAFFLOOP_RUN_LONG_S", 10)
# How long a queued run waits for a worker that has its engine version.
RUN_VERSION_PATIENCE_S = positive_int("STAFFLOOP_RUN_VERSION_PATIENCE_S", 300)

# Recorded traces that learners hand in: each file as it is sent, and all that one learner holds.
TRACE_LIMIT_BYTES = positive_int("STAFFLOOP_TRACE_LIMIT_MIB", 25) * 2**20
TRACES_PER_LEARNER = positive_int("STAFFLOOP_TRACES_PER_LEARNER", 20)
TRACE_BYTES_PER_LEARNER = positive_int("STAFFLOOP_TRACE_MIB_PER_LEARNER", 200) * 2**20
TRACE_CHECK_TIME_LIMIT_S = positive_int("STAFFLOOP_TRACE_CHECK_TIME_LIMIT_S", 60)
TRACE_CHECK_MEMORY_LIMIT_BYTES = (
    positive_int("STAFFLOOP_TRACE_CHECK_MEMORY_MIB", min(2048, RUN_MEMORY_LIMIT_BYTES // 2**21)) * 2**20
)
if TRACE_CHECK_MEMORY_LIMIT_BYTES >= RUN_MEMORY_LIMIT_BYTES:  # a trace would be ready that no run can hold
    raise ImproperlyConfigured(
        "STAFFLOOP_TRACE_CHECK_MEMORY_MIB must be less than STAFFLOOP_RUN_MEMORY_LIMIT_MIB"
    )
# Copies of what a storage elsewhere has; beside a folder of this machine's own it stays empty.
TRACE_CACHE_DIR = VAR_DIR / "trace-cache"

# How long reports and figures are kept; scores and grades stay. 0: for ever.
KEEP_REPORTS_DAYS = positive_int("STAFFLOOP_KEEP_REPORTS_DAYS", 0, least=0)

CELERY_BROKER_URL = BROKER_URL
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_DEFAULT_QUEUE = "runs"
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None  # a worker waits for its broker for as long as it takes
# After a reconnection Celery would restore the prefetch count from the pool's threads; on AMQP they and the main thread
# then wait for each other's answers on one connection, for ever, and the worker takes no message any more (seen).
CELERY_WORKER_ENABLE_PREFETCH_COUNT_REDUCTION = False
CELERY_WORKER_SEND_TASK_EVENTS = False
CELERY_WORKER_ENABLE_REMOTE_CONTROL = False
CELERY_BROKER_TRANSPORT_OPTIONS = {}
if BROKER_URL.startswith("filesystem:"):
    CELERY_BROKER_TRANSPORT = "config.filesystem_broker:Transport"
    CELERY_BROKER_TRANSPORT_OPTIONS = {"folder": str(VAR_DIR / "broker"), "polling_interval": 0.08}
elif BROKER_URL.startswith("redis"):
    # Must exceed what takes longest, or Redis hands out a message that is still being worked on.
    CELERY_BROKER_TRANSPORT_OPTIONS = {
        "visibility_timeout": max(2 * RUN_TIME_LIMIT_S, EXPLORE_TIME_LIMIT_S) + 60,
        # A server that hangs is an error, not a hanging request; more than the second that workers listen for.
        "socket_timeout": 10,
        "socket_connect_timeout": 5,
    }
elif BROKER_URL.startswith("amqp"):
    CELERY_BROKER_TRANSPORT_OPTIONS = {"confirm_publish": True}

# People -------------------------------------------------------------------------------------------

AUTH_USER_MODEL = "quiz.Learner"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "home"
LOGOUT_REDIRECT_URL = "home"
# Anyone may make an account on a laptop; a site with its own people says so.
STAFFLOOP_OPEN_REGISTRATION = strict_bool("STAFFLOOP_OPEN_REGISTRATION", EMBEDDED)

# REST ---------------------------------------------------------------------------------------------

# Of a whole body, over REST and from pages; the longest text of a learner's own has a quarter of it.
DATA_UPLOAD_MAX_MEMORY_SIZE = 2**20
# Where a longer one is read: a trace, and what a form puts around it. It goes to a temporary file, not to memory.
LONGER_BODIES = dict.fromkeys(
    ("/api/v1/traces/", "/labs/traces/", "/admin/labs/trace/add/"), TRACE_LIMIT_BYTES + 2**16
)

# Limits of requests are counted in the cache: by each process for itself, or by all in one Redis.
CACHES = {"default": cache_settings("CACHE_URL")}
THROTTLE_RATES = {
    "learner": rate("STAFFLOOP_LEARNER_RATE", "1200/minute"),
    "submission": rate("STAFFLOOP_SUBMISSION_RATE", "240/minute"),
    "register": rate("STAFFLOOP_REGISTER_RATE", "60/hour"),
    "sign_in": rate("STAFFLOOP_SIGN_IN_RATE", "30/minute"),
}

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "quiz.api.authentication.BearerAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["config.parsers.PointingJSONParser"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "DEFAULT_PAGINATION_CLASS": "config.pagination.NewestFirst",
    "PAGE_SIZE": 50,
    "EXCEPTION_HANDLER": "config.problems.handle",
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
    "DEFAULT_THROTTLE_CLASSES": [
        "quiz.api.throttling.LearnerThrottle",
        "quiz.api.throttling.SubmissionThrottle",
    ],
    # Whose word on a client's address is taken: behind a proxy that sets X-Forwarded-For, 1.
    "NUM_PROXIES": positive_int("STAFFLOOP_NUM_PROXIES", 0, least=0),
    "STRICT_JSON": True,
}
REST_KNOX = {
    "AUTH_HEADER_PREFIX": "Bearer",
    "TOKEN_TTL": timedelta(days=30),
    "TOKEN_LIMIT_PER_USER": 20,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Staffloop",
    "VERSION": "1.0.0",
    "DESCRIPTION": "Quizzes and graded torch labs on serving large language models.",
    "OAS_VERSION": "3.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "SCHEMA_PATH_PREFIX": r"/api/v1",
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "COMPONENT_SPLIT_REQUEST": True,
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "config.openapi.complete",
    ],
    "ENUM_NAME_OVERRIDES": {
        "RunState": "labs.models.Run.State",
        "TaskAttemptState": "labs.models.TaskAttempt.State",
        "TraceState": "labs.models.TraceFile.State",
        "AttemptState": "quiz.models.Attempt.State",
        "ActivityKind": "quiz.models.Activity.Kind",
        "QuestionKind": "quiz.models.QuestionVersion.Kind",
    },
}

# Streams of a run's progress; each waiting learner costs a coroutine and a socket of this process.
STREAM_TICKET_S = 60
STREAM_POLL_S = 0.5
STREAM_HEARTBEAT_S = 15.0
STREAM_FIGURES_S = 60.0
STREAM_MAX_S = positive_int("STAFFLOOP_STREAM_MAX_S", 900)
STREAMS_PER_PROCESS = positive_int("STAFFLOOP_STREAMS_PER_PROCESS", 1000)
STREAMS_PER_LEARNER = positive_int("STAFFLOOP_STREAMS_PER_LEARNER", 20)

# Pages --------------------------------------------------------------------------------------------

LANGUAGE_CODE = "en-gb"
TIME_ZONE = "UTC"
USE_I18N = False
USE_TZ = True
STATIC_URL = "static/"
STATIC_ROOT = VAR_DIR / "static"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "config.static.ManifestStorage"},
    "traces": storage_settings("STAFFLOOP_TRACES_STORAGE", VAR_DIR / "traces"),
}
WHITENOISE_KEEP_ONLY_HASHED_FILES = True
FIXTURE_DIRS = [BASE_DIR / "fixtures"]

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [csp.constants.NONE],
        "script-src": [csp.constants.SELF],
        "style-src": [csp.constants.SELF],
        "img-src": [csp.constants.SELF, "data:"],
        "font-src": [csp.constants.SELF],
        "connect-src": [csp.constants.SELF],
        "form-action": [csp.constants.SELF],
        "base-uri": [csp.constants.NONE],
        "frame-ancestors": [csp.constants.SELF],
    }
}
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "SAMEORIGIN"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SECURE = strict_bool("SECURE_COOKIES", not EMBEDDED)
CSRF_COOKIE_SECURE = SESSION_COOKIE_SECURE
SECURE_SSL_REDIRECT = strict_bool("SECURE_SSL_REDIRECT", False)
BEHIND_TLS_PROXY = strict_bool("BEHIND_TLS_PROXY", False)
if BEHIND_TLS_PROXY:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")

# Watching -----------------------------------------------------------------------------------------

# Beside this machine itself, who sends it as a Bearer token may read /metrics.
METRICS_TOKEN = optional_token("STAFFLOOP_METRICS_TOKEN")

# Logs ---------------------------------------------------------------------------------------------

LOGGING = logging_settings(
    log_format=one_of("LOG_FORMAT", logs.FORMATS, "lines"), level=one_of("LOG_LEVEL", logs.LEVELS, "INFO")
)
