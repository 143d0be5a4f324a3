// Sends deliveries and plain requests to one URL, and prints how they ended. Reads its task from the first argument.
import http from "node:http";
import https from "node:https";

/** `count` of each kind, `concurrency` at a time. */
const { module, url, count, concurrency } = JSON.parse(process.argv[2]);
const { createPost } = await import(module);
const post = createPost({ WEBHOOK_ALLOW_PRIVATE_ADDRESSES: true });

const KINDS = {
  deliveries: () => post(url, {}, "{}").then(({ status, body }) => ({ status, length: body.length })),
  requests: () =>
    new Promise((resolve, reject) => {
      const { request } = url.startsWith("https:") ? https : http;
      const sending = request(url, { method: "POST", agent: false }, (response) => {
        let length = 0;
        response.on("error", reject).on("data", (chunk) => (length += chunk.length));
        response.on("end", () => resolve({ status: response.statusCode, length }));
      });
      sending.on("error", reject).end("{}");
    }),
};

const results = {};
for (const [kind, send] of Object.entries(KINDS)) {
  const outcomes = {};
  const sendAll = async () => {
    for (let sent = 0; sent < count / concurrency; sent++) {
      const outcome = await send().then(
        ({ status, length }) => `${status}, ${length} bytes`,
        ({ message }) => message,
      );
      outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
    }
  };
  await Promise.all(Array.from({ length: concurrency }, sendAll));
  results[kind] = outcomes;
}
process.stdout.write(JSON.stringify(results), () => process.exit());
