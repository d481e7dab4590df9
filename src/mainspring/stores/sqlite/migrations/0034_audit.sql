-- compatible_from: 0007
-- The audit: who changed what. Rows are not changed, but that a seal may be set once; and not deleted before they are
-- older than what is kept.

CREATE TABLE audit (
    -- An id is never used again: AUTOINCREMENT.
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    actor TEXT NOT NULL,
    actor_kind TEXT NOT NULL,
    token TEXT,
    address TEXT,
    request_id TEXT,
    -- The id of the operation.
    action TEXT NOT NULL,
    subject_kind TEXT NOT NULL,
    -- Empty if there are many; `after` has the first of them then.
    subject_id TEXT NOT NULL,
    subject_name TEXT,
    outcome TEXT NOT NULL,
    before TEXT,
    after TEXT,
    seal INTEGER
) STRICT;
CREATE INDEX audit_page ON audit (tenant, id);
CREATE INDEX audit_subject ON audit (subject_kind, subject_id, id);
CREATE INDEX audit_name ON audit (subject_kind, subject_name, id) WHERE subject_name IS NOT NULL;
CREATE INDEX audit_unsealed ON audit (id) WHERE seal IS NULL;
CREATE INDEX audit_sealed ON audit (seal, id) WHERE seal IS NOT NULL;

-- A chain of digests: each over the rest of its row, which has the digest before, and one of the entries as `content`.
CREATE TABLE audit_seal (
    id INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    entries INTEGER NOT NULL,
    content BLOB NOT NULL,
    digest BLOB NOT NULL,
    previous BLOB
) STRICT;

-- Rows from before this instant may be deleted.
CREATE TABLE audit_horizon (
    id INTEGER PRIMARY KEY CONSTRAINT audit_horizon_single CHECK (id = 1),
    kept_from INTEGER NOT NULL
) STRICT;
INSERT INTO audit_horizon (id, kept_from) VALUES (1, 0);

CREATE TRIGGER audit_guard_rows BEFORE UPDATE ON audit
WHEN old.seal IS NOT NULL OR new.seal IS NULL
  OR (
    old.id, old.at, old.tenant, old.actor, old.actor_kind, old.token, old.address, old.request_id, old.action,
    old.subject_kind, old.subject_id, old.subject_name, old.outcome, old.before, old.after
  ) IS NOT (
    new.id, new.at, new.tenant, new.actor, new.actor_kind, new.token, new.address, new.request_id, new.action,
    new.subject_kind, new.subject_id, new.subject_name, new.outcome, new.before, new.after
  )
BEGIN
    SELECT RAISE(ABORT, 'the audit is only added to');
END;
-- INSERT OR REPLACE deletes rows without a trigger. An id that is not given is -1 here.
CREATE TRIGGER audit_guard_inserts BEFORE INSERT ON audit
WHEN new.id > 0 AND EXISTS (SELECT 1 FROM audit WHERE audit.id = new.id)
BEGIN
    SELECT RAISE(ABORT, 'the audit is only added to');
END;
CREATE TRIGGER audit_guard_deletes BEFORE DELETE ON audit
WHEN old.at >= (SELECT audit_horizon.kept_from FROM audit_horizon)
BEGIN
    SELECT RAISE(ABORT, 'the audit is only added to');
END;
CREATE TRIGGER audit_seal_guard_rows BEFORE UPDATE ON audit_seal
BEGIN
    SELECT RAISE(ABORT, 'the audit is only added to');
END;
CREATE TRIGGER audit_seal_guard_inserts BEFORE INSERT ON audit_seal
WHEN EXISTS (SELECT 1 FROM audit_seal WHERE audit_seal.id = new.id)
BEGIN
    SELECT RAISE(ABORT, 'the audit is only added to');
END;
CREATE TRIGGER audit_seal_guard_deletes BEFORE DELETE ON audit_seal
WHEN old.at >= (SELECT audit_horizon.kept_from FROM audit_horizon)
BEGIN
    SELECT RAISE(ABORT, 'the audit is only added to');
END;
-- The horizon only moves on, and stays a day behind the clock: that is the least that can be kept.
CREATE TRIGGER audit_horizon_guard_rows BEFORE UPDATE ON audit_horizon
WHEN new.kept_from < old.kept_from OR new.kept_from > (unixepoch() - 86400) * 1000000
BEGIN
    SELECT RAISE(ABORT, 'the audit is only added to');
END;
CREATE TRIGGER audit_horizon_guard_inserts BEFORE INSERT ON audit_horizon
BEGIN
    SELECT RAISE(ABORT, 'the audit is only added to');
END;
CREATE TRIGGER audit_horizon_guard_deletes BEFORE DELETE ON audit_horizon
BEGIN
    SELECT RAISE(ABORT, 'the audit is only added to');
END;
