// The cluster scenario of ../scenario.py with ioredis: node ioredis_cluster.js PORT PREFIX

const { Cluster } = require("ioredis");

const [port, prefix] = process.argv.slice(2);
const key = (name) => prefix + name;
const tagged = (name) => `{${prefix}}${name}`;
const add = (numbers) => numbers.reduce((sum, number) => sum + Number(number), 0);
const replies = (results) => results.map(([error, reply]) => error?.message ?? reply);

async function main() {
  // A pipeline of ioredis wants all its keys on one node; with this setting it makes one for each node by itself.
  const cluster = new Cluster([{ host: "127.0.0.1", port: Number(port) }], { enableAutoPipelining: true });
  const seen = {};

  const names = Array.from({ length: 200 }, (_, i) => String(i));
  await Promise.all(names.map((name) => cluster.set(key(name), name)));
  seen.sum = add(await Promise.all(names.map((name) => cluster.get(key(name)))));

  const counters = names.slice(0, 100).map((name) => key("counter" + name));
  seen.pipeline = add(await Promise.all(counters.map((name) => cluster.incr(name))));

  const number = tagged("number");
  seen.transaction = replies(await cluster.multi().incrby(number, 40).incrby(number, 2).get(number).exec());
  seen.blocking_pop = (await cluster.blpop(tagged("queue"), 20))?.at(1);

  cluster.disconnect();
  console.log(JSON.stringify(seen));
}

main();
