// Sends one request many times over keep-alive connections, as raw bytes, so that it uses little CPU time itself. It does not
// wait for responses; a connection pipelines its requests. Reads its task from the first argument, and prints the number of
// responses by status once all have arrived.
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

/** `perSecond` null: all at once. */
const { port, path, key, count, perSecond, connections } = JSON.parse(process.argv[2]);

const request = `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${key}\r\n\r\n`;
const statuses = {};
let received = 0;
let withoutRetryAfter = 0;
let onComplete;
const complete = new Promise((resolve) => {
  onComplete = resolve;
});

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
      if (++received === count) onComplete();
      text = text.slice(next);
    }
  });
  return new Promise((resolve) => {
    socket.once("connect", () => resolve(socket));
  });
}

const sockets = await Promise.all(Array.from({ length: connections }, open));
const began = performance.now();
for (let sent = 0; sent < count; ) {
  const due = perSecond === null ? count : Math.min(count, ((performance.now() - began) * perSecond) / 1000);
  for (; sent < due; sent++) sockets[sent % connections].write(request);
  await sleep(5);
}
const sendMs = performance.now() - began;
await complete;
for (const socket of sockets) socket.destroy();
console.log(JSON.stringify({ statuses, withoutRetryAfter, sendMs, totalMs: performance.now() - began }));
