// BullMQ: jobs that are added and worked on while the server goes away, some of them later, some retried, and a flow.
// It tells of all that happens to them in a stream, which QueueEvents reads with XREAD and which is trimmed.

const { FlowProducer, Queue, QueueEvents, Worker } = require("bullmq");
const { POLL_MS, end, insist, note, noted, sleep, url, waitForOutage, waitUntil } = require("./working");

const JOBS = 60;
const CHILDREN = 5;
const connection = { url, maxRetriesPerRequest: null };

const silent = (one) => {
  one.on("error", () => {});
  return one;
};

async function work(job) {
  await sleep(POLL_MS);
  if (job.data.number % 10 === 0 && job.attemptsMade === 0) throw new Error("not yet");
  note(String(job.data.number));
  return job.data.number + 1;
}

async function main() {
  const queue = silent(new Queue("work", { connection, streams: { events: { maxLen: 1000 } } }));
  const flows = silent(new FlowProducer({ connection }));
  const events = silent(new QueueEvents("work", { connection, lastEventId: "0-0" }));
  const told = new Set();
  events.on("completed", ({ jobId }) => told.add(jobId));
  const worker = silent(
    new Worker("work", work, { connection, concurrency: 4, stalledInterval: 500, lockDuration: 1000, maxStalledCount: 20 }),
  );
  const options = { attempts: 5, backoff: 20, removeOnComplete: false };
  for (let number = 0; number < JOBS; number += 1) {
    const delay = number % 7 === 0 ? 500 : 0;
    await insist(() => queue.add("job", { number }, { ...options, delay, jobId: `job-${number}` }));
    await sleep(POLL_MS / 2);
  }
  await waitForOutage(2);
  const children = [];
  for (let number = JOBS; number < JOBS + CHILDREN; number += 1) {
    children.push({ name: "child", queueName: "work", data: { number }, opts: { ...options, jobId: `job-${number}` } });
  }
  const all = JOBS + CHILDREN + 1;
  const parent = { name: "parent", queueName: "work", data: { number: all - 1 }, opts: { ...options, jobId: "parent" } };
  await insist(() => flows.add({ ...parent, children }));
  await waitUntil(async () => new Set(noted()).size === all && (await insist(() => queue.getCompletedCount())) === all);
  await waitUntil(() => told.size === all);
  const counts = await insist(() => queue.getJobCounts("completed", "failed", "active", "waiting", "delayed"));
  const values = Object.values(await insist(async () => (await queue.getJob("parent")).getChildrenValues()));
  end({ counts, told: told.size, values: values.sort() });
}

main();
