-- compatible_from: 0007
-- Preemption: who is asked to give up a slot, and for which lanes slots were sought.

-- How long work of a queue waits before it takes slots of others; NULL: it does not.
ALTER TABLE queue ADD preempt_after_ms bigint;
-- When slots were last sought for the lane: one server does so in a period.
ALTER TABLE lane ADD preempted_at timestamptz;
-- The last request to give up the slot (core/preemption.py). NULL for nearly all.
ALTER TABLE run ADD preemption text;
