// Sends deliveries to one URL, and prints how long the event loop was held up meanwhile. Reads its task from the first argument.
import { setTimeout as sleep } from "node:timers/promises";

/** `perSecond` is what each of `concurrency` senders sends at most. */
const { module, url, concurrency, perSecond, seconds } = JSON.parse(process.argv[2]);
const WARM_UP_SECONDS = 1;
const INTERVAL_MS = 2;

const { createPost } = await import(module);
const post = createPost({ WEBHOOK_ALLOW_PRIVATE_ADDRESSES: true });
const body = JSON.stringify({ type: "webhook.test" });
const outcomes = {};

async function send(index) {
  await sleep((1000 / perSecond / concurrency) * index);
  for (;;) {
    const start = performance.now();
    const outcome = await post(url, { "Content-Type": "application/json" }, body).then(
      ({ status }) => status,
      ({ message }) => message,
    );
    outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
    await sleep(Math.max(0, 1000 / perSecond - (performance.now() - start)));
  }
}

for (let count = 0; count < concurrency; count++) void send(count);
await sleep(WARM_UP_SECONDS * 1000);

// An iteration of the event loop that is late because of this process has used as much CPU time. Other processes can only make it later.
const lags = [];
const start = process.cpuUsage();
const cpuMs = () => (({ user, system }) => (user + system) / 1000)(process.cpuUsage(start));
let last = { at: performance.now(), cpu: cpuMs() };
setInterval(() => {
  const now = { at: performance.now(), cpu: cpuMs() };
  lags.push(Math.min(now.at - last.at - INTERVAL_MS, now.cpu - last.cpu));
  last = now;
}, INTERVAL_MS);
await sleep(seconds * 1000);
lags.sort((one, other) => other - one);
const result = { lagMs: lags[0], p99Ms: lags[Math.floor(lags.length / 100)], cpu: cpuMs() / seconds / 1000, outcomes };
process.stdout.write(JSON.stringify(result), () => process.exit());
