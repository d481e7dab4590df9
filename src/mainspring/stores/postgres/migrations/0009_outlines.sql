-- compatible_from: 0007
-- What the run of a one-off job needs of its definition lies beside its clock, for fires in sets (ADR 0040).

-- JSON. Jobs that are there have none: their fires read the definition, as before, and so do those of jobs that an
-- earlier release edits, because the version that the outline names is then no longer the job's.
ALTER TABLE job_clock ADD COLUMN run_outline text;
