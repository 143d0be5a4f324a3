// Pipelines one request over several connections: sends it again and again, as raw bytes, without waiting for responses. Opens a
// connection again when it is closed. Reads its task from the first argument, and prints what it sent and received.
import { connect } from "node:net";

/** `isReading` false: it never reads a response. */
const { port, request, connections, bytesPerSecond, seconds, isReading } = JSON.parse(process.argv[2]);
const INTERVAL_MS = 5;

const block = Buffer.from(request.repeat(Math.ceil(65_536 / request.length)), "latin1");
const bytesPerInterval = Math.ceil((bytesPerSecond * INTERVAL_MS) / 1000 / connections);
const sockets = new Set();
let sentBytes = 0;
let receivedBytes = 0;
let opened = 0;
let isEnding = false;

function open() {
  opened++;
  const socket = connect(port, "127.0.0.1");
  let offset = 0;
  /** Sends on where it stopped. */
  socket.sendMore = (bytes) => {
    // The gateway reads no more for now.
    if (socket.writableLength > 0) return;
    for (let left = bytes; left > 0; ) {
      const part = block.subarray(offset, Math.min(offset + left, block.length - (block.length % request.length)));
      socket.write(part);
      left -= part.length;
      sentBytes += part.length;
      offset = (offset + part.length) % (block.length - (block.length % request.length));
    }
  };
  if (isReading) socket.on("data", ({ length }) => (receivedBytes += length));
  socket.on("error", () => {});
  socket.on("connect", () => sockets.add(socket));
  socket.on("close", () => {
    sockets.delete(socket);
    if (!isEnding) setTimeout(open, INTERVAL_MS);
  });
}

for (let n = 0; n < connections; n++) open();
const began = performance.now();
let due = 0;
const timer = setInterval(() => {
  const elapsed = performance.now() - began;
  if (elapsed > seconds * 1000) {
    isEnding = true;
    clearInterval(timer);
    for (const socket of sockets) socket.destroy();
    console.log(JSON.stringify({ sentBytes, receivedBytes, opened }));
    return;
  }
  for (; due < elapsed / INTERVAL_MS; due++) for (const socket of sockets) socket.sendMore(bytesPerInterval);
}, INTERVAL_MS);
