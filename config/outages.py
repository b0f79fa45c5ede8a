"""Telling a database that is away from a fault of ours: the first is 503 and passes, the second is 500 and logged."""

import sqlite3

import psycopg
from django.db import InterfaceError, OperationalError

RETRY_AFTER_S = "5"
DETAIL = "The database cannot be reached just now. Nothing was changed; try again in a moment."

# PostgreSQL's classes of errors: connection, resources (also a full disk), operator intervention (a shutdown).
AWAY_CLASSES = ("08", "53", "57")
# SQLite: busy, locked, read-only, I/O error, full, cannot be opened. What else it calls operational is bad SQL.
AWAY_CODES = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
}


def is_away(error: BaseException | None) -> bool:
    """Whether Django's database error says that the server is away, and not that we asked it something wrong."""
    if not isinstance(error, (OperationalError, InterfaceError)):
        return False
    cause = error.__cause__
    if isinstance(cause, psycopg.Error):
        # Without a code it is the client library's: no connection, or one that broke.
        return cause.sqlstate is None or cause.sqlstate.startswith(AWAY_CLASSES)
    if isinstance(cause, sqlite3.OperationalError):
        return getattr(cause, "sqlite_errorcode", 0) & 0xFF in AWAY_CODES  # the upper bytes only say more
    return False
