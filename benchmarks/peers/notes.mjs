// What the Node scripts do alike, as notes.py is for those in Python.
import { appendFileSync, readdirSync, statSync } from "node:fs";

const folder = process.env.BENCHMARK_NOTES;
const wall = () => (performance.timeOrigin + performance.now()) / 1000;
const sleep = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));
const LOT = 1000;
let count = 0;

export function noteJob() {
  if (count === 0) appendFileSync(`${folder}/${process.pid}`, "");
  else if (count % LOT === 0) appendFileSync(`${folder}/${process.pid}.lots`, ".");
  count += 1;
}

const countJobs = () =>
  LOT * readdirSync(folder).filter((name) => name.endsWith(".lots")).reduce((sum, name) => sum + statSync(`${folder}/${name}`).size, 0);

export async function feed(call, chunk, backlog, seconds) {
  let brought = 0;
  const began = wall();
  while (wall() - began < seconds) {
    if (brought - countJobs() < backlog) {
      await call();
      brought += chunk;
    } else {
      await sleep(0.005);
    }
  }
}

export function noteStamp(at) {
  appendFileSync(`${folder}/stamps`, `${((wall() - at) * 1000).toFixed(3)}\n`);
}

export async function hammer(call, chunk, atOnce, seconds) {
  let count = 0;
  const used = process.cpuUsage();
  const began = wall();
  const carry = async () => {
    while (wall() - began < seconds) {
      await call();
      count += chunk;
    }
  };
  await Promise.all(Array.from({ length: atOnce }, carry));
  const rate = count / (wall() - began);
  const { user, system } = process.cpuUsage(used);
  console.log(JSON.stringify({ rate, count, producer_us: (user + system) / count }));
}

export async function ping(call, count, gap) {
  for (let left = count; left > 0; left -= 1) {
    await call(wall());
    await sleep(gap);
  }
}
