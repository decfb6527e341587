// The scenario of ../scenario.py with ioredis: node ioredis.js PORT PREFIX

const { Redis } = require("ioredis");

const [port, prefix] = process.argv.slice(2);
const key = (name) => prefix + name;
const replies = (results) => results.map(([error, reply]) => error?.message ?? reply);

async function main() {
  const client = new Redis(Number(port), "127.0.0.1");
  const other = client.duplicate();
  const seen = {};

  await client.set(key("text"), "Grüße, Ada");
  seen.text = await client.get(key("text"));
  seen.missing = await client.get(key("missing"));

  await client.set(key("bytes"), Buffer.from("00ff0d0a", "hex"));
  seen.bytes = (await client.getBuffer(key("bytes"))).toString("hex");

  await client.hset(key("hash"), { name: "Ada", born: "1815" });
  seen.hash = await client.hgetall(key("hash"));

  await client.sadd(key("set"), "x", "y", "x");
  seen.members = [...(await client.smembers(key("set")))].sort();

  await client.zadd(key("zset"), 1.5, "first", 2, "second");
  const ranking = (await client.zrange(key("zset"), 0, -1, "WITHSCORES")).flat();
  seen.ranking = [[ranking[0], Number(ranking[1])], [ranking[2], Number(ranking[3])]];

  await client.expireat(key("text"), 4102444800);
  seen.expires_at = await client.expiretime(key("text"));
  seen.error = await client.lpush(key("text"), "x").catch((error) => error.message);

  const pipeline = client.pipeline();
  for (let i = 0; i < 1000; i++) pipeline.incr(key("counter"));
  const counts = replies(await pipeline.exec());
  seen.pipeline = [counts.reduce((sum, count) => sum + count), counts.at(-1)];

  const number = key("number");
  seen.transaction = replies(await client.multi().incrby(number, 40).incrby(number, 2).get(number).exec());

  await client.watch(number);
  seen.watch_kept = replies(await client.multi().incr(number).exec());
  await client.watch(number);
  await other.set(number, "1");
  const lost = await client.multi().incr(number).exec();
  seen.watch_lost = lost ?? (await client.get(number));

  seen.blocking_pop = (await client.blpop(key("queue"), 20))?.at(1);
  seen.timed_out_pop = await client.blpop(key("empty"), 0.1);

  seen.message = await new Promise((resolve, reject) => {
    other.on("message", (channel, message) => resolve(message));
    other.subscribe(key("channel")).then(() => client.publish(key("channel"), "hello")).catch(reject);
  });

  seen.scanned = [];
  for await (const keys of client.scanStream({ match: prefix + "*" })) {
    seen.scanned.push(...keys.map((name) => name.slice(prefix.length)));
  }
  seen.scanned.sort();

  client.disconnect();
  other.disconnect();
  console.log(JSON.stringify(seen));
}

main();
