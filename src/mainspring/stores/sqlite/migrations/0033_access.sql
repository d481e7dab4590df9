-- compatible_from: 0007
-- Accounts and access tokens: who may do what where.

CREATE TABLE account (
    name TEXT PRIMARY KEY,
    -- Roles by tenant, as JSON. The tenant * stands for all.
    grants TEXT NOT NULL,
    is_disabled INTEGER NOT NULL,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE token (
    prefix TEXT PRIMARY KEY,
    -- SHA-256 of its text.
    hash BLOB NOT NULL,
    account TEXT NOT NULL,
    name TEXT NOT NULL,
    role TEXT NOT NULL
        CONSTRAINT token_role CHECK (role IN ('viewer', 'operator', 'editor', 'admin', 'worker')),
    tenant TEXT NOT NULL,
    -- Requests a second.
    rate INTEGER,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    last_used_at INTEGER,
    revoked_at INTEGER,
    replaces TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX token_account ON token (account, prefix);

INSERT INTO revision (name, number) VALUES ('access', 0);
