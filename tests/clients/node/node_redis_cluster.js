// The cluster scenario of ../scenario.py with node-redis: node node_redis_cluster.js PORT PREFIX

const { createCluster } = require("redis");

const [port, prefix] = process.argv.slice(2);
const key = (name) => prefix + name;
const tagged = (name) => `{${prefix}}${name}`;
const add = (numbers) => numbers.reduce((sum, number) => sum + Number(number), 0);

async function main() {
  const cluster = createCluster({ rootNodes: [{ socket: { host: "127.0.0.1", port: Number(port) } }] });
  await cluster.connect();
  const seen = {};

  const names = Array.from({ length: 200 }, (_, i) => String(i));
  await Promise.all(names.map((name) => cluster.set(key(name), name)));
  seen.sum = add(await Promise.all(names.map((name) => cluster.get(key(name)))));

  const counters = names.slice(0, 100).map((name) => key("counter" + name));
  seen.pipeline = add(await Promise.all(counters.map((name) => cluster.incr(name))));

  const number = tagged("number");
  seen.transaction = await cluster.multi().incrBy(number, 40).incrBy(number, 2).get(number).exec();
  seen.blocking_pop = (await cluster.blPop(tagged("queue"), 20))?.element;

  cluster.destroy();
  console.log(JSON.stringify(seen));
}

main();
