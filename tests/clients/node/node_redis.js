// The scenario of ../scenario.py with node-redis: node node_redis.js PORT PREFIX

const { createClient, RESP_TYPES, WatchError } = require("redis");

const [port, prefix] = process.argv.slice(2);
const key = (name) => prefix + name;
const lost = (error) => {
  if (error instanceof WatchError) return null;
  throw error;
};

async function main() {
  const client = await createClient({ socket: { host: "127.0.0.1", port: Number(port) } }).connect();
  const other = await client.duplicate().connect();
  const seen = {};

  await client.set(key("text"), "Grüße, Ada");
  seen.text = await client.get(key("text"));
  seen.missing = await client.get(key("missing"));

  await client.set(key("bytes"), Buffer.from("00ff0d0a", "hex"));
  const bytes = await client.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer }).get(key("bytes"));
  seen.bytes = bytes.toString("hex");

  await client.hSet(key("hash"), { name: "Ada", born: "1815" });
  seen.hash = await client.hGetAll(key("hash"));

  await client.sAdd(key("set"), ["x", "y", "x"]);
  seen.members = (await client.sMembers(key("set"))).sort();

  await client.zAdd(key("zset"), [{ score: 1.5, value: "first" }, { score: 2, value: "second" }]);
  seen.ranking = (await client.zRangeWithScores(key("zset"), 0, -1)).map(({ value, score }) => [value, score]);

  await client.expireAt(key("text"), 4102444800);
  seen.expires_at = await client.expireTime(key("text"));
  seen.error = await client.lPush(key("text"), "x").catch((error) => error.message);

  // What is asked for in one turn of the event loop goes out in one write.
  const counts = await Promise.all(Array.from({ length: 1000 }, () => client.incr(key("counter"))));
  seen.pipeline = [counts.reduce((sum, count) => sum + count), counts.at(-1)];

  const number = key("number");
  seen.transaction = await client.multi().incrBy(number, 40).incrBy(number, 2).get(number).exec();

  await client.watch(number);
  seen.watch_kept = await client.multi().incr(number).exec();
  await client.watch(number);
  await other.set(number, "1");
  await client.multi().incr(number).exec().catch(lost);
  seen.watch_lost = await client.get(number);

  seen.blocking_pop = (await client.blPop(key("queue"), 20))?.element;
  seen.timed_out_pop = await client.blPop(key("empty"), 0.1);

  seen.message = await new Promise((resolve, reject) => {
    other.subscribe(key("channel"), resolve).then(() => client.publish(key("channel"), "hello")).catch(reject);
  });

  seen.scanned = [];
  for await (const keys of client.scanIterator({ MATCH: prefix + "*" })) {
    seen.scanned.push(...keys.map((name) => name.slice(prefix.length)));
  }
  seen.scanned.sort();

  client.destroy();
  other.destroy();
  console.log(JSON.stringify(seen));
}

main();
