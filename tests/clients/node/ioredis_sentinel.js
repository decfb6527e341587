// Counts up with ioredis, which asks Sentinels for the master, until its input ends: node ioredis_sentinel.js NAME KEY PORT...
// Then it reports how many INCRs were acknowledged, and how many were not.

const { Redis } = require("ioredis");

const [name, key, ...ports] = process.argv.slice(2);
const seen = { acknowledged: 0, failed: 0 };
let ends = false;

async function main() {
  const client = new Redis({
    name,
    sentinels: ports.map((port) => ({ host: "127.0.0.1", port: Number(port) })),
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    reconnectOnError: (error) => error.message.startsWith("READONLY"),
    retryStrategy: () => 50,
    sentinelRetryStrategy: () => 50,
  });
  client.on("error", () => {});
  process.stdin.on("end", () => (ends = true)).resume();
  while (!ends) {
    try {
      await client.incr(key);
      if (!seen.acknowledged++) process.stdout.write("counting\n");
    } catch {
      seen.failed++;
    }
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  client.disconnect();
  console.log(JSON.stringify(seen));
}

main().then(() => process.exit(0));
