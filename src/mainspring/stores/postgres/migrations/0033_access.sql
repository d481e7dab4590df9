-- compatible_from: 0007
-- Accounts and access tokens: who may do what where.

CREATE TABLE account (
    name text NOT NULL,
    -- Roles by tenant, as JSON. The tenant * stands for all.
    grants text NOT NULL,
    is_disabled boolean NOT NULL,
    created_at timestamptz NOT NULL,
    CONSTRAINT account_pkey PRIMARY KEY (name)
);

CREATE TABLE token (
    prefix text NOT NULL,
    -- SHA-256 of its text.
    hash bytea NOT NULL,
    account text NOT NULL,
    name text NOT NULL,
    role text NOT NULL,
    tenant text NOT NULL,
    -- Requests a second.
    rate integer,
    created_at timestamptz NOT NULL,
    expires_at timestamptz,
    last_used_at timestamptz,
    revoked_at timestamptz,
    replaces text,
    CONSTRAINT token_pkey PRIMARY KEY (prefix),
    CONSTRAINT token_role CHECK (role IN ('viewer', 'operator', 'editor', 'admin', 'worker'))
);
CREATE INDEX token_account ON token (account, prefix);

INSERT INTO revision (name, number) VALUES ('access', 0);
