-- compatible_from: 0007
-- How people sign in: passwords, accounts of an identity provider, and sessions, which are tokens that end soon.

CREATE TABLE password (
    account text NOT NULL,
    -- Made by Argon2id, with its parameters and salt.
    hash text NOT NULL,
    set_at timestamptz NOT NULL,
    CONSTRAINT password_pkey PRIMARY KEY (account)
);

ALTER TABLE account
    ADD COLUMN issuer text,
    ADD COLUMN subject text,
    ADD COLUMN last_login_at timestamptz;
CREATE UNIQUE INDEX account_subject ON account (issuer, subject) WHERE issuer IS NOT NULL;

-- By what somebody signed in, null for a token that was made; and the token by which somebody did.
ALTER TABLE token
    ADD COLUMN login text,
    ADD COLUMN parent text;
CREATE INDEX token_parent ON token (parent) WHERE parent IS NOT NULL;
