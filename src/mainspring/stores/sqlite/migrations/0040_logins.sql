-- compatible_from: 0007
-- How people sign in: passwords, accounts of an identity provider, and sessions, which are tokens that end soon.

CREATE TABLE password (
    account TEXT PRIMARY KEY,
    -- Made by Argon2id, with its parameters and salt.
    hash TEXT NOT NULL,
    set_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

ALTER TABLE account ADD COLUMN issuer TEXT;
ALTER TABLE account ADD COLUMN subject TEXT;
ALTER TABLE account ADD COLUMN last_login_at INTEGER;
CREATE UNIQUE INDEX account_subject ON account (issuer, subject) WHERE issuer IS NOT NULL;

-- By what somebody signed in; null for a token that was made.
ALTER TABLE token ADD COLUMN login TEXT;
-- The token by which somebody signed in.
ALTER TABLE token ADD COLUMN parent TEXT;
CREATE INDEX token_parent ON token (parent) WHERE parent IS NOT NULL;
