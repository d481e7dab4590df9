// Jobs on pg-boss, on DATABASE_URL; called as the other contestants are. A line of work takes at most a batch each half
// second, so there are several.
import { PgBoss } from "pg-boss";
import { hammer, noteJob, noteStamp, ping } from "./notes.mjs";

const CHUNK = 1000;
const LINES = 10;
const [command, ...given] = process.argv.slice(2);
const boss = new PgBoss({ connectionString: process.env.DATABASE_URL, supervise: false, schedule: false });
boss.on("error", console.error);
await boss.start();
await boss.createQueue("noop");
await boss.createQueue("stamp");
const chunkOf = (count) => Array.from({ length: count }, () => ({ data: {} }));

if (command === "work") {
  for (let line = 0; line < LINES; line++) {
    await boss.work("noop", { batchSize: CHUNK, pollingIntervalSeconds: 0.5 }, async (jobs) => jobs.forEach(noteJob));
  }
  await boss.work("stamp", { batchSize: 100, pollingIntervalSeconds: 0.5 }, async (jobs) => jobs.forEach((job) => noteStamp(job.data.at)));
} else {
  const [first, second, third] = given.map(Number);
  if (command === "load") {
    for (let left = first; left > 0; left -= CHUNK) await boss.insert("noop", chunkOf(CHUNK));
  } else if (command === "submit") {
    const chunk = chunkOf(first);
    await hammer(first > 1 ? () => boss.insert("noop", chunk) : () => boss.send("noop", {}), first, second, third);
  } else if (command === "ping") {
    await ping((at) => boss.send("stamp", { at }), first, second);
  }
  process.exit(0);
}
