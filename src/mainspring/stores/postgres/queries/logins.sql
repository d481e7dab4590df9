-- How people sign in: passwords, accounts of an identity provider, and sessions.

-- name: find_password
SELECT password.hash FROM password WHERE password.account = :account;

-- name: find_subject
SELECT {account_columns} FROM account WHERE issuer = :issuer AND subject = :subject;

-- name: write_password
INSERT INTO password (account, hash, set_at) VALUES (:account, :hash, :now)
ON CONFLICT (account) DO UPDATE SET hash = excluded.hash, set_at = excluded.set_at;

-- name: end_logins
-- Those that began with the account's other tokens stay: who has such a token knows no password. What was begun in one
-- that ends, and with that in turn, ends with it.
WITH RECURSIVE ended (prefix) AS (
    SELECT own.prefix FROM token AS own
    WHERE own.account = :account AND own.login IS NOT NULL AND own.parent IS NULL AND own.revoked_at IS NULL
      AND own.prefix <> :spares
    UNION
    SELECT child.prefix FROM ended JOIN token AS child ON child.parent = ended.prefix
)
UPDATE token SET revoked_at = :now WHERE prefix IN (SELECT ended.prefix FROM ended) AND revoked_at IS NULL;

-- name: forget_logins
DELETE FROM token WHERE account = :account AND login IS NOT NULL AND expires_at < :before;

-- name: note_login
UPDATE account SET last_login_at = :now WHERE name = :account;
