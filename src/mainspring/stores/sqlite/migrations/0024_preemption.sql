-- compatible_from: 0007
-- Preemption: who is asked to give up a slot, and for which lanes slots were sought.

-- How long work of a queue waits before it takes slots of others; NULL: it does not.
ALTER TABLE queue ADD COLUMN preempt_after_ms INTEGER;
-- When slots were last sought for the lane: one server does so in a period.
ALTER TABLE lane ADD COLUMN preempted_at INTEGER;
-- The last request to give up the slot (core/preemption.py). NULL for nearly all.
ALTER TABLE run ADD COLUMN preemption TEXT;
