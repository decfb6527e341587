// rate-limiter-flexible: clients that ask for more than they may have, while the server goes away.

const Redis = require("ioredis");
const { RateLimiterRedis, RateLimiterRes } = require("rate-limiter-flexible");
const { POLL_MS, end, note, sleep, url, waitForOutage } = require("./working");

const CLIENTS = 4;

async function main() {
  const storeClient = new Redis(url, { enableOfflineQueue: false, retryStrategy: () => POLL_MS });
  storeClient.on("error", () => {});
  await new Promise((resolve) => storeClient.once("ready", resolve));
  const limiter = new RateLimiterRedis({ storeClient, points: 60, duration: 86_400 });
  const ask = async () => {
    for (;;) {
      try {
        await limiter.consume("everybody");
        note("allowed");
      } catch (error) {
        if (error instanceof RateLimiterRes) return error.remainingPoints;
      }
      await sleep(POLL_MS);
    }
  };
  const remaining = await Promise.all(Array.from({ length: CLIENTS }, ask));
  await waitForOutage();
  end({ remaining, after: await ask() });
}

main();
