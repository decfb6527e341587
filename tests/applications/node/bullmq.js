// BullMQ: how far a job comes. It writes an event to a stream when the job is added.

const { Queue, Worker } = require("bullmq");
const { end, url } = require("./working");

async function main() {
  const connection = { url };
  const queue = new Queue("work", { connection });
  const worker = new Worker("work", async (job) => job.data.number + 1, { connection });
  worker.on("error", () => {});
  const finished = new Promise((resolve) => worker.on("completed", (_, result) => resolve(result)));
  try {
    await queue.add("job", { number: 1 });
    end({ result: await finished });
  } catch (error) {
    end({ error: error.message.replace(/ script: .*/s, "").replace(/, with args.*/s, "") });
  }
}

main();
