-- The result of the last check of all ledgers.

-- name: put_ledger_check
UPDATE ledger_check SET body = :body;

-- name: read_ledger_check
SELECT body FROM ledger_check;
