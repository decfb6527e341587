// Counts keys of a cluster up with ioredis, until its standard input ends; a dot for each 50: node … PORT PREFIX

const { Cluster } = require("ioredis");

const [port, prefix] = process.argv.slice(2);

async function main() {
  const cluster = new Cluster([{ host: "127.0.0.1", port: Number(port) }]);
  cluster.on("error", () => {});
  let ended = false;
  process.stdin.on("end", () => (ended = true)).resume();
  const counts = {};
  const errors = [];
  for (let number = 0; !ended && !errors.length; number++) {
    const key = `${prefix}:${number % 50}`;
    try {
      counts[key] = await cluster.incr(key);
    } catch (error) {
      errors.push(String(error));
    }
    if (number % 50 === 49) console.log(".");
  }
  console.log(JSON.stringify({ counts, errors }));
  process.exit();
}

main();
