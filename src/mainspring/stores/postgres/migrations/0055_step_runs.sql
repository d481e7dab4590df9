-- compatible_from: 0007
-- Runs of workflows are looked up by step: a step may have a run for each of ten thousand items. The indexes keep their
-- names, which statements of the earlier release ask for.

DROP INDEX run_history_flow;
DROP INDEX dead_run_flow;
CREATE INDEX run_history_flow ON run_history (flow_id, step, id) WHERE flow_id > 0;
CREATE INDEX dead_run_flow ON dead_run (flow_id, step, id) WHERE flow_id > 0;
