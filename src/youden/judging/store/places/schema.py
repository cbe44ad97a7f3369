"""The tables of a store in PostgreSQL, and their version."""

from __future__ import annotations

VERSION = 2
TABLES = ("answers", "failures", "judges", "served", "claims", "paid", "members", "writers", "batches")

SCHEMA = (
    "CREATE TABLE youden.version (version int NOT NULL)",
    """CREATE TABLE youden.answers (key text PRIMARY KEY, completion text NOT NULL, created float8 NOT NULL,
       written xid8 NOT NULL DEFAULT pg_current_xact_id())""",
    "CREATE INDEX answers_written ON youden.answers (written)",
    """CREATE TABLE youden.failures
       (key text PRIMARY KEY, kind text NOT NULL, status bigint, reason text NOT NULL, created float8 NOT NULL)""",
    "CREATE TABLE youden.judges (config text PRIMARY KEY, created float8 NOT NULL)",
    "CREATE TABLE youden.served (judge text, name text, created float8 NOT NULL, PRIMARY KEY (judge, name))",
    "CREATE TABLE youden.claims (key text PRIMARY KEY, owner text NOT NULL, expires float8 NOT NULL)",
    "CREATE INDEX claims_owner ON youden.claims (owner)",
    """CREATE TABLE youden.paid
       (payer text NOT NULL, key text NOT NULL, usd float8, tokens_in bigint NOT NULL, tokens_out bigint NOT NULL,
        seconds float8 NOT NULL, PRIMARY KEY (payer, key))""",
    """CREATE TABLE youden.members
       (run text, name text, leads boolean, granted bigint, spent bigint, answered bigint, expires float8, asks boolean,
        PRIMARY KEY (run, name))""",
    """CREATE TABLE youden.batches
       (id text PRIMARY KEY, address text NOT NULL, model text NOT NULL, usd float8, file text, batch text, keys text NOT NULL,
        created float8 NOT NULL)""",
    "CREATE TABLE youden.writers (writer text PRIMARY KEY, n bigint NOT NULL)",
)
