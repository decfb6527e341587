// Counts keys of a cluster up with node-redis: node … PORT PREFIX

const { createCluster } = require("redis");
const { count } = require("./counting");

const [port, prefix] = process.argv.slice(2);

async function main() {
  const cluster = createCluster({ rootNodes: [{ socket: { host: "127.0.0.1", port: Number(port) } }] });
  cluster.on("error", () => {});
  await cluster.connect();
  await count(cluster, prefix);
}

main();
