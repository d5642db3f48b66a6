-- Users; those without a token come through a proxy that knows them.
CREATE TABLE IF NOT EXISTS users (
    name TEXT PRIMARY KEY,
    role TEXT NOT NULL CHECK (role IN ('read', 'push', 'label', 'admin')),
    created_at REAL NOT NULL,  -- seconds since 1970, as all times here
    revoked_at REAL
) STRICT;

-- Tokens, of which only the hash is kept.
CREATE TABLE IF NOT EXISTS tokens (
    token_sha256 TEXT PRIMARY KEY,
    prefix TEXT NOT NULL,  -- its first characters, by which people name it
    user TEXT NOT NULL REFERENCES users (name),
    note TEXT NOT NULL,  -- where it is used
    created_at REAL NOT NULL,
    expires_at REAL,
    last_used_at REAL,
    revoked_at REAL
) STRICT;

-- Browsers that are signed in.
CREATE TABLE IF NOT EXISTS sessions (
    session_sha256 TEXT PRIMARY KEY,
    key_sha256 TEXT NOT NULL,
    token_sha256 TEXT NOT NULL REFERENCES tokens (token_sha256),
    created_at REAL NOT NULL,
    last_used_at REAL NOT NULL
) STRICT;

-- Who did what.
CREATE TABLE IF NOT EXISTS audit (
    audit_id INTEGER PRIMARY KEY,
    at REAL NOT NULL,
    user TEXT NOT NULL,
    address TEXT NOT NULL,
    action TEXT NOT NULL,  -- push, label, remove, sql, …
    details TEXT NOT NULL  -- JSON
) STRICT;

-- Files that were sent and wait in the folder until they are stored.
CREATE TABLE IF NOT EXISTS files (
    sha256 TEXT PRIMARY KEY,
    byte_size INTEGER NOT NULL,
    user TEXT NOT NULL,
    received_at REAL NOT NULL
) STRICT;

-- Captures that were sent, with their files and options. The identifier is the sender's: a push that is sent again is
-- the same one.
CREATE TABLE IF NOT EXISTS pushes (
    push_id TEXT PRIMARY KEY,
    place INTEGER NOT NULL,  -- the order in which they are stored
    user TEXT NOT NULL,
    received_at REAL NOT NULL,
    request TEXT NOT NULL,  -- JSON; its hash once it is stored or has failed
    state TEXT NOT NULL,  -- waiting, stored or failed
    result TEXT,  -- JSON
    ended_at REAL,
    is_begun INTEGER NOT NULL DEFAULT 0,  -- whether the writer is storing it
    crashes INTEGER NOT NULL DEFAULT 0  -- how often the writer's process ended while it did
) STRICT;

CREATE UNIQUE INDEX IF NOT EXISTS pushes_in_order ON pushes (place);

CREATE INDEX IF NOT EXISTS pushes_by_state ON pushes (state, place);

-- Files that captures that wait need.
CREATE TABLE IF NOT EXISTS wanted (
    sha256 TEXT NOT NULL REFERENCES files (sha256),
    push_id TEXT NOT NULL REFERENCES pushes (push_id),
    PRIMARY KEY (sha256, push_id)
) STRICT;

CREATE INDEX IF NOT EXISTS wanted_by_push ON wanted (push_id);

-- Changes of captures that programs wait for.
CREATE TABLE IF NOT EXISTS changes (
    change_id TEXT PRIMARY KEY,
    user TEXT NOT NULL,
    address TEXT NOT NULL,
    asked_at REAL NOT NULL,
    request TEXT NOT NULL,  -- JSON
    attempts INTEGER NOT NULL DEFAULT 0,  -- how often the writer has begun it
    outcome TEXT  -- JSON
) STRICT;

-- Bytes that a user sent on a day (of UTC).
CREATE TABLE IF NOT EXISTS sent (
    user TEXT NOT NULL,
    day TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    PRIMARY KEY (user, day)
) STRICT;

-- Changes of series that a webhook was told of, or that were there when it was set.
CREATE TABLE IF NOT EXISTS told (
    overview TEXT NOT NULL,
    change_key TEXT NOT NULL,
    began_at REAL NOT NULL,
    ended_at REAL,
    details TEXT NOT NULL,  -- JSON
    PRIMARY KEY (overview, change_key)
) STRICT;

-- Items of overviews of which the changes were compared with `told` before: of others, what has changed is only noted.
CREATE TABLE IF NOT EXISTS told_items (
    overview TEXT NOT NULL,
    item INTEGER NOT NULL,
    PRIMARY KEY (overview, item)
) STRICT;

-- What is to be sent to the webhook, the oldest first, until it is taken.
CREATE TABLE IF NOT EXISTS messages (
    message_id INTEGER PRIMARY KEY AUTOINCREMENT,
    body TEXT NOT NULL,  -- JSON
    made_at REAL NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    next_at REAL NOT NULL
) STRICT;

-- Secrets that were made at random, by what they are for.
CREATE TABLE IF NOT EXISTS secrets (
    name TEXT PRIMARY KEY,
    secret BLOB NOT NULL
) STRICT;
