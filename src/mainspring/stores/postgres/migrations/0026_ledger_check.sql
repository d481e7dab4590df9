-- compatible_from: 0007
-- What the last check of all jobs' ledgers came to.

CREATE TABLE ledger_check (
    id smallint PRIMARY KEY CONSTRAINT ledger_check_is_one CHECK (id = 1),
    body text
);
INSERT INTO ledger_check (id) VALUES (1);
