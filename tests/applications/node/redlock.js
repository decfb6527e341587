// redlock: holders of one lock, one of which has it while the server goes away.

const Redis = require("ioredis");
const Redlock = require("redlock");
const { POLL_MS, alone, end, insist, url } = require("./working");

const TURNS = 10;
const OUTAGE_AT = 15;

// An error may be of a release that was done, and not answered.
async function release(client, lock) {
  try {
    await lock.unlock();
  } catch (error) {
    if ((await client.get("lock")) === lock.value) throw error;
  }
}

async function main() {
  const client = new Redis(url, { maxRetriesPerRequest: 0, retryStrategy: () => POLL_MS });
  client.on("error", () => {});
  const redlock = new Redlock([client], { retryCount: -1, retryDelay: POLL_MS });
  redlock.on("clientError", () => {});
  const overlaps = [];
  const takeTurns = async (name) => {
    for (let turn = 0; turn < TURNS; turn++) {
      const lock = await insist(() => redlock.lock("lock", 60_000));
      if (!(await alone(`${name} ${turn}`, OUTAGE_AT))) overlaps.push(`${name} ${turn}`);
      await insist(() => release(client, lock));
    }
  };
  await Promise.all(["a", "b", "c", "d"].map(takeTurns));
  const free = await client.exists("lock");
  end({ overlaps, free: free === 0 });
}

main();
