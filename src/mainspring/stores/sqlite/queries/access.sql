-- Accounts and access tokens.

-- name: read_access_revision
SELECT number FROM revision WHERE name = 'access';

-- name: raise_access_revision
UPDATE revision SET number = number + 1 WHERE name = 'access';

-- name: find_token
SELECT
    {token.token_columns}, token.hash, account.grants, account.hides_payloads, account.is_disabled,
    account.created_at AS joined_at, account.issuer, account.subject, account.last_login_at, revision.number AS revision
FROM token JOIN account ON account.name = token.account JOIN revision ON revision.name = 'access'
WHERE token.prefix = :prefix;

-- name: get_account
SELECT {account_columns} FROM account WHERE name = :name;

-- name: list_accounts
SELECT {account_columns} FROM account WHERE name > :after ORDER BY name LIMIT :limit;

-- name: list_all_accounts
SELECT {account_columns} FROM account;

-- name: write_account
INSERT INTO account (name, grants, hides_payloads, is_disabled, created_at, issuer, subject)
VALUES (:name, :grants, :hides_payloads, :is_disabled, :created_at, :issuer, :subject)
ON CONFLICT (name) DO UPDATE
SET grants = excluded.grants, hides_payloads = excluded.hides_payloads, is_disabled = excluded.is_disabled;

-- name: add_token
INSERT INTO token (
    prefix, hash, account, name, role, tenant, queues, rate, created_at, expires_at, replaces, login, parent
)
VALUES (
    :prefix, :hash, :account, :name, :role, :tenant, :queues, :rate, :created_at, :expires_at, :replaces, :login,
    :parent
)
ON CONFLICT (prefix) DO NOTHING
RETURNING prefix;

-- name: shorten_token
-- One that works in its place already is none to be replaced.
UPDATE token SET expires_at = min(coalesce(expires_at, :ends_at), :ends_at)
WHERE prefix = :prefix AND revoked_at IS NULL AND NOT EXISTS (
    SELECT 1 FROM token AS next
    WHERE next.replaces = :prefix AND next.revoked_at IS NULL
        AND (next.expires_at IS NULL OR next.expires_at > :now)
)
RETURNING prefix;

-- name: shorten_children
-- What was begun with a token, and with that in turn, does not outlast it.
WITH RECURSIVE heir (prefix) AS (
    SELECT child.prefix FROM token AS child WHERE child.parent = :prefix
    UNION
    SELECT child.prefix FROM heir JOIN token AS child ON child.parent = heir.prefix
)
UPDATE token SET expires_at = min(coalesce(expires_at, :ends_at), :ends_at)
WHERE prefix IN (SELECT heir.prefix FROM heir) AND revoked_at IS NULL;

-- name: revoke_token
UPDATE token SET revoked_at = :now WHERE prefix = :prefix AND revoked_at IS NULL RETURNING prefix;

-- name: revoke_children
-- What was begun with a token, and with that in turn, ends with it.
WITH RECURSIVE heir (prefix) AS (
    SELECT child.prefix FROM token AS child WHERE child.parent = :prefix
    UNION
    SELECT child.prefix FROM heir JOIN token AS child ON child.parent = heir.prefix
)
UPDATE token SET revoked_at = :now WHERE prefix IN (SELECT heir.prefix FROM heir) AND revoked_at IS NULL;

-- name: list_tokens
SELECT {token_columns} FROM token WHERE prefix > :after ORDER BY prefix LIMIT :limit;

-- name: list_tokens_of_account
SELECT {token_columns} FROM token INDEXED BY token_account
WHERE account = :account AND prefix > :after ORDER BY prefix LIMIT :limit;

-- name: note_token_use
UPDATE token SET last_used_at = max(coalesce(last_used_at, :used_at), :used_at) WHERE prefix = :prefix;
