// bee-queue: jobs that are saved and processed while the server goes away, some of them later, some at the second attempt.

const Queue = require("bee-queue");
const { POLL_MS, end, insist, note, noted, sleep, url, waitForOutage, waitUntil } = require("./working");

const JOBS = 60;
const redis = { url, retry_strategy: () => POLL_MS };
const failed = new Set();

async function main() {
  const settings = { redis, activateDelayedJobs: true, stallInterval: 1000, initialRedisFailureRetryDelay: POLL_MS };
  const queue = new Queue("work", settings);
  queue.on("error", () => {}); // it says so each time that the server is away
  queue.process(4, async (job) => {
    await sleep(POLL_MS);
    if (job.data.number % 10 === 0 && !failed.has(job.id)) {
      failed.add(job.id);
      throw new Error("not yet");
    }
    note(job.data.number);
  });
  queue.checkStalledJobs(1000, () => {});
  for (let number = 0; number < JOBS; number++) {
    const job = queue.createJob({ number }).setId(`job ${number}`).retries(5); // of two with one id, the second is none
    if (number % 7 === 0) job.delayUntil(Date.now() + 500);
    await insist(() => job.save());
    await sleep(POLL_MS / 2);
  }
  await waitForOutage(2);
  await waitUntil(() => new Set(noted()).size === JOBS);
  let health;
  await waitUntil(async () => {
    health = await insist(() => queue.checkHealth());
    return health.waiting + health.active + health.delayed === 0;
  });
  end({ failed: health.failed, succeeded: health.succeeded });
}

main();
