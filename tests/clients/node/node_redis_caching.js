// The scenario CACHED of ../scenario.py with node-redis: node node_redis_caching.js PORT PREFIX

const { setTimeout: sleep } = require("node:timers/promises");
const { BasicClientSideCache, createClient } = require("redis");

const [port, prefix] = process.argv.slice(2);
const key = prefix + "key";
const cache = new BasicClientSideCache({ recordStats: true });

// Reads until the value is the wanted one: the cache is told of it in its own time.
async function until(client, wanted) {
  for (const ends = Date.now() + 10_000; ; await sleep(1)) {
    const value = await client.get(key);
    if (value === wanted || Date.now() > ends) return value;
  }
}

async function main() {
  const socket = { host: "127.0.0.1", port: Number(port) };
  const client = await createClient({ RESP: 3, clientSideCache: cache, socket }).connect();
  const other = await createClient({ socket }).connect();
  const seen = {};

  await other.set(key, "1");
  seen.read = await client.get(key);
  const hits = cache.stats().hitCount;
  seen.kept = [await client.get(key), cache.stats().hitCount > hits];
  await other.set(key, "2");
  seen.changed = await until(client, "2");
  await client.set(key, "3");
  seen.own = await until(client, "3");
  await other.del(key);
  seen.deleted = await until(client, null);

  console.log(JSON.stringify(seen));
  client.destroy();
  other.destroy();
}

main();
