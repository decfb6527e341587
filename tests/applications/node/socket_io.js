// socket.io's streams adapter: two servers that share a stream, which goes away, and a client that is away for a while, too.
// What the first server sends to all clients, those of the second one get out of the stream.

const { createServer } = require("node:http");
const { createAdapter } = require("@socket.io/redis-streams-adapter");
const { createClient } = require("redis");
const { Server } = require("socket.io");
const { io } = require("socket.io-client");
const { POLL_MS, end, note, noted, sleep, url, waitForOutage, waitUntil } = require("./working");

const PACKETS = Number(process.env.ENTRIES);
const ALL = PACKETS + 6;
const PATIENCE_MS = 3000;

async function start() {
  const client = createClient({ url, socket: { reconnectStrategy: () => POLL_MS } });
  client.on("error", () => {});
  await client.connect();
  const http = createServer();
  const server = new Server(http, {
    adapter: createAdapter(client, { blockTimeInMs: 500 }),
    connectionStateRecovery: {},
    transports: ["websocket"],
  });
  await new Promise((listening) => http.listen(0, "127.0.0.1", listening));
  return { server, port: http.address().port };
}

async function connect(port) {
  const socket = io(`ws://127.0.0.1:${port}`, { transports: ["websocket"], reconnectionDelay: 4 * POLL_MS });
  socket.on("work", (number) => note(String(number)));
  await waitUntil(() => socket.connected);
  return socket;
}

// Sends a packet, and once more if it is not there for long: nobody knows whether it got into the stream.
async function insistOn(server, number) {
  for (;;) {
    server.emit("work", number);
    for (const since = performance.now(); performance.now() - since < PATIENCE_MS; await sleep(POLL_MS / 4)) {
      if (noted().includes(String(number))) return;
    }
  }
}

async function main() {
  const [first, second] = [await start(), await start()];
  const socket = await connect(second.port);
  for (let number = 0; number < PACKETS; number += 1) await insistOn(first.server, number);
  await waitForOutage(Number(process.env.KILLS));
  await insistOn(first.server, PACKETS);
  socket.io.engine.close();
  await waitUntil(() => second.server.sockets.sockets.size === 0);
  for (let number = PACKETS + 1; number < ALL; number += 1) first.server.emit("work", number);
  await waitUntil(() => socket.connected && new Set(noted()).size === ALL);
  end({ recovered: socket.recovered });
}

main();
