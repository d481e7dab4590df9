// Jobs on graphile-worker, on DATABASE_URL; called as the other contestants are. Its documented fastest settings: a
// local queue, and completions in batches; for idle pick-up neither, as the queue asks the store only now and then.
import { Logger, makeWorkerUtils, run, runMigrations } from "graphile-worker";
import { feed, hammer, noteJob, noteStamp, ping } from "./notes.mjs";

const CHUNK = 1000;
const connectionString = process.env.DATABASE_URL;
const logger = new Logger(() => () => {});
const [command, ...given] = process.argv.slice(2);
const chunkOf = (count) => Array.from({ length: count }, () => ({ identifier: "noop", payload: {} }));
const taskList = { noop: async () => noteJob(), stamp: async ({ at }) => noteStamp(at) };

if (command === "prepare") {
  await runMigrations({ connectionString, logger });
} else if (command === "work") {
  const batching = given[0] === "drain" ? { localQueue: { size: Number(process.env.GRAPHILE_QUEUE ?? 4000) }, completeJobBatchDelay: 0, failJobBatchDelay: 0 } : {};
  const worker = { connectionString, maxPoolSize: 12, concurrentJobs: 24, pollInterval: 2000, ...batching };
  await run({ connectionString, logger, concurrency: 24, pollInterval: 2000, noHandleSignals: true, taskList, preset: { worker } });
} else {
  const utils = await makeWorkerUtils({ connectionString, logger });
  const [first, second, third] = given.map(Number);
  if (command === "load") {
    const chunk = chunkOf(CHUNK);
    for (let left = first; left > 0; left -= CHUNK) await utils.addJobs(chunk);
  } else if (command === "submit") {
    const chunk = chunkOf(first);
    await hammer(first > 1 ? () => utils.addJobs(chunk) : () => utils.addJob("noop", {}), first, second, third);
  } else if (command === "feed") {
    const chunk = chunkOf(CHUNK);
    await feed(() => utils.addJobs(chunk), CHUNK, first, second);
  } else if (command === "ping") {
    await ping((at) => utils.addJob("stamp", { at }), first, second);
  }
  await utils.release();
}
