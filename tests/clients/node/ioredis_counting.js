// Counts keys of a cluster up with ioredis: node … PORT PREFIX

const { Cluster } = require("ioredis");
const { count } = require("./counting");

const [port, prefix] = process.argv.slice(2);

const cluster = new Cluster([{ host: "127.0.0.1", port: Number(port) }]);
cluster.on("error", () => {});
count(cluster, prefix);
