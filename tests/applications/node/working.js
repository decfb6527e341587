// Shared by these programs: what they have done, and when the server was away. See ../outages.py.

const fs = require("node:fs");
const { setTimeout: sleep } = require("node:timers/promises");

const POLL_MS = 20;
const TIMEOUT_MS = 60_000;
const url = process.env.APPLICATION_URL;
const inside = `${process.env.WORK}.inside`;

const lines = (path) => fs.readFileSync(path, "utf8").split("\n").slice(0, -1);
const note = (line) => fs.appendFileSync(process.env.WORK, `${line}\n`);
const noted = () => lines(process.env.WORK);

async function waitUntil(condition) {
  const deadline = performance.now() + TIMEOUT_MS;
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error("it took too long");
    await sleep(POLL_MS);
  }
}

const waitForOutage = (number = 1) => waitUntil(() => lines(process.env.OUTAGES).length >= number);

// The result of the step, which is repeated as long as it fails: the server may be away.
async function insist(step) {
  const deadline = performance.now() + TIMEOUT_MS;
  for (;;) {
    try {
      return await step();
    } catch (error) {
      if (performance.now() > deadline) throw error;
      await sleep(POLL_MS);
    }
  }
}

// Works as the one holder of a lock: says whether anybody else is inside. It is inside during the outage.
async function alone(line, outageAt) {
  let isAlone = true;
  try {
    fs.closeSync(fs.openSync(inside, "wx"));
  } catch {
    isAlone = false;
  }
  note(line);
  await sleep(POLL_MS / 4);
  if (noted().length === outageAt) {
    await waitForOutage();
    await sleep(300);
  }
  fs.rmSync(inside, { force: true });
  return isAlone;
}

function end(report) {
  process.stdout.write(JSON.stringify(report), () => process.exit(0));
}

module.exports = { POLL_MS, alone, end, insist, note, noted, sleep, url, waitForOutage, waitUntil };
