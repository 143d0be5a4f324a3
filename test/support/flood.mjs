// Sends one request many times over keep-alive connections, as raw bytes, so that it uses little CPU time itself. As with usual
// clients, a connection has one request at a time; a request that is due waits while all are in use. Reads its task from the first
// argument, and prints the number of responses by status once all have arrived.
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

/**
 * `perSecond` null: all at once, `bursts` times with pauses. Otherwise what is not sent after the time that this takes is not
 * sent at all.
 */
const { port, path, key, count, bursts, perSecond, connections } = JSON.parse(process.argv[2]);
const PAUSE_MS = 500;

const request = (path) => `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${key}\r\n\r\n`;
let statuses = {};
let withoutRetryAfter = 0;
const idle = [];
let awaited = 0;
let onComplete;

/** Resolves when this many responses have arrived. */
function arrivalOf(responses) {
  awaited = responses;
  return new Promise((resolve) => {
    onComplete = resolve;
  });
}

function open() {
  const socket = connect(port, "127.0.0.1");
  let text = "";
  socket.setEncoding("latin1").on("data", (chunk) => {
    text += chunk;
    for (let end = text.indexOf("\r\n\r\n"); end !== -1; end = text.indexOf("\r\n\r\n")) {
      const head = text.slice(0, end);
      const next = end + 4 + Number(/^content-length: (\d+)/im.exec(head)[1]);
      if (text.length < next) return;
      const status = head.slice(9, 12);
      statuses[status] = (statuses[status] ?? 0) + 1;
      if (status !== "200" && !/^retry-after: [1-9]/im.test(head)) withoutRetryAfter++;
      text = text.slice(next);
      idle.push(socket);
      if (--awaited === 0) onComplete();
    }
  });
  return new Promise((resolve) => {
    socket.once("connect", () => resolve(socket));
  });
}

const sockets = await Promise.all(Array.from({ length: connections }, open));
// Node accepts one connection per iteration of its event loop: wait until it has accepted all.
const accepted = arrivalOf(connections);
for (const socket of sockets) socket.write(request("/livez"));
await accepted;
statuses = {};

let sent = 0;
let fastestMs = Number.POSITIVE_INFINITY;
for (let burst = 0; burst < bursts; burst++) {
  await sleep(PAUSE_MS);
  const complete = arrivalOf(count);
  const began = performance.now();
  const endAt = perSecond === null ? Number.POSITIVE_INFINITY : began + (1000 * count) / perSecond;
  let remaining = count;
  while (remaining > 0 && performance.now() < endAt) {
    const due = perSecond === null ? count : Math.min(count, ((performance.now() - began) * perSecond) / 1000);
    for (; count - remaining < due && idle.length > 0; remaining--) idle.shift().write(request(path));
    await sleep(5);
  }
  sent += count - remaining;
  awaited -= remaining;
  if (awaited > 0) await complete;
  fastestMs = Math.min(fastestMs, performance.now() - began);
}
for (const socket of sockets) socket.destroy();
console.log(JSON.stringify({ sent, statuses, withoutRetryAfter, fastestMs }));
