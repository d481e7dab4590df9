-- How people sign in: passwords, accounts of an identity provider, and sessions.

-- name: find_password
SELECT password.hash FROM password WHERE password.account = :account;

-- name: find_subject
SELECT {account_columns} FROM account WHERE issuer = :issuer AND subject = :subject;

-- name: write_password
INSERT INTO password (account, hash, set_at) VALUES (:account, :hash, :now)
ON CONFLICT (account) DO UPDATE SET hash = excluded.hash, set_at = excluded.set_at;

-- name: end_logins
-- Those that began with the account's other tokens stay: who has such a token knows no password.
UPDATE token SET revoked_at = :now
WHERE account = :account AND login IS NOT NULL AND parent IS NULL AND revoked_at IS NULL AND prefix <> :spares;

-- name: forget_logins
DELETE FROM token WHERE account = :account AND login IS NOT NULL AND expires_at < :before;

-- name: note_login
UPDATE account SET last_login_at = :now WHERE name = :account;
