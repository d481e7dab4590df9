// No-op jobs on graphile-worker: `prepare`, `load COUNT`, `work`, on DATABASE_URL. Its documented fastest settings: a
// local queue, and completions in batches.
import { closeSync, openSync } from "node:fs";
import { Logger, makeWorkerUtils, run, runMigrations } from "graphile-worker";

const CHUNK = 1000;
const connectionString = process.env.DATABASE_URL;
const logger = new Logger(() => () => {});
const [command, count] = process.argv.slice(2);
let hasBegun = false;

const noop = async () => {
  if (!hasBegun) {
    hasBegun = true;
    closeSync(openSync(`${process.env.BENCHMARK_FIRST_JOBS}/${process.pid}`, "w"));
  }
};

if (command === "prepare") {
  await runMigrations({ connectionString, logger });
} else if (command === "load") {
  const utils = await makeWorkerUtils({ connectionString, logger });
  const chunk = Array.from({ length: CHUNK }, () => ({ identifier: "noop", payload: {} }));
  for (let left = Number(count); left > 0; left -= CHUNK) await utils.addJobs(chunk);
  await utils.release();
} else {
  const preset = {
    worker: {
      connectionString, maxPoolSize: 12, concurrentJobs: 24, pollInterval: 2000,
      localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0,
    },
  };
  await run({ connectionString, logger, concurrency: 24, pollInterval: 2000, noHandleSignals: true, taskList: { noop }, preset });
}
