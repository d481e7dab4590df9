-- compatible_from: 0007
-- How many fires of a job with a maximum (`max_fires`) may still run; null for all others.

ALTER TABLE job_clock ADD COLUMN fires_left INTEGER;
