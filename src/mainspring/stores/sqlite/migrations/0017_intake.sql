-- compatible_from: 0007
-- How much may wait in queues and for tenants, how long, and how often tenants may submit.

ALTER TABLE queue ADD COLUMN max_queued INTEGER;
ALTER TABLE queue ADD COLUMN expires_after_ms INTEGER;

ALTER TABLE tenant ADD COLUMN max_queued INTEGER;
ALTER TABLE tenant ADD COLUMN max_jobs INTEGER;
-- So many submissions in each submit_per_ms; NULL: as many as come.
ALTER TABLE tenant ADD COLUMN submit_count INTEGER;
ALTER TABLE tenant ADD COLUMN submit_per_ms INTEGER;
-- The permits for submissions at permits_at; NULL: as many as fit.
ALTER TABLE tenant ADD COLUMN permits REAL;
ALTER TABLE tenant ADD COLUMN permits_at INTEGER;
