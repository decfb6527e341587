// node-redis: a client that caches what it reads, another one that writes, and a server that goes away.

const { BasicClientSideCache, createClient } = require("redis");
const { POLL_MS, end, insist, note, sleep, url, waitForOutage, waitUntil } = require("./working");

const CHANGES = 40;

async function connect(options) {
  const client = createClient({
    url,
    RESP: 3,
    disableOfflineQueue: true,
    socket: { reconnectStrategy: () => POLL_MS },
    ...options,
  });
  client.on("error", () => {});
  return client.connect();
}

async function main() {
  const cache = new BasicClientSideCache({ recordStats: true });
  const reader = await connect({ clientSideCache: cache });
  const writer = await connect({});
  const get = () => insist(() => reader.get("key"));
  const stale = [];
  for (let number = 0; number < CHANGES; number++) {
    const wanted = String(number);
    await insist(() => writer.set("key", wanted));
    await waitUntil(async () => (await get()) === wanted); // a cache learns of it soon
    for (let read = 0; read < 3; read++) {
      const value = await get();
      if (value !== wanted) stale.push([wanted, value]);
    }
    note(wanted);
    await sleep(POLL_MS);
  }
  await waitForOutage();
  const { hitCount, missCount } = cache.stats();
  end({ stale, hits: hitCount, misses: missCount });
}

main();
