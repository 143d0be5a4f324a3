import { processCommand } from "../cli/command.js";
import { flag, option } from "../cli/fields.js";
import { TEXT, wholeNumberFrom } from "../cli/readers.js";

/** Options of commands that listen. */
const ADDRESS = {
  port: option(
    "--port <number>",
    "port to listen on, 0 for any free port (default: PORT, or 3000)",
    wholeNumberFrom(0, 65_535),
  ),
  host: option("--host <name>", "address to listen on (default: HOST, or 127.0.0.1)", TEXT),
};

export const serve = processCommand({
  description: "run the service: the gateway, and the worker that sends emails and webhooks",
  input: {
    ...ADDRESS,
    worker: flag("--no-worker", "run only the gateway; `guest-forms worker` sends emails and webhooks", false),
  },
  help: `
Requires DATABASE_URL, APP_SECRETS and a database prepared by \`guest-forms migrate\`. SIGTERM, SIGINT and SIGHUP stop it
gracefully: it keeps serving for DRAIN_DELAY_SECONDS, then stops accepting requests and lets running ones finish (at most
DRAIN_SECONDS). To use more than one CPU core, run several processes behind a load balancer. Each has its own connection
pool and, without REDIS_URL, its own rate limits.`,
  examples: ["DATABASE_URL=postgres://user:password@localhost/guest_forms guest-forms serve --port 8080"],
  hasSettings: true,
  async run({ worker = true, ...address }, print) {
    const { serve } = await import("../processes/serve.js");
    await serve({ ...address, worker }, print);
  },
});

export const worker = processCommand({
  description: "run only the worker, which sends emails and webhooks, next to `serve --no-worker`",
  help: `
Requires DATABASE_URL and APP_SECRETS. SIGTERM, SIGINT and SIGHUP stop it gracefully: it begins no new attempt, and finishes
and records those under way (at most DRAIN_SECONDS).`,
  hasSettings: true,
  async run(_input, print) {
    const { runWorker } = await import("../processes/worker.js");
    await runWorker(print);
  },
});

export const dev = processCommand({
  description: "run the service with demo data on an embedded Postgres, without any setup",
  input: {
    ...ADDRESS,
    fresh: flag("--fresh", "delete the database and demo keys in .data/ and create new ones", true),
  },
  help: `
Keeps its data in .data/ in the current folder for the next start: the database (unless DATABASE_URL is set), and two
demo keys in .data/demo.json. While it runs, other commands started in this folder use its database. Without SMTP_URL,
emails are printed to standard error. A receiver of its own prints a line per webhook there, and endpoints may use
http and private addresses, unless WEBHOOK_ALLOW_PRIVATE_ADDRESSES=false. If port 3000 is in use, and neither PORT nor --port is set, it uses the
next free port. Ctrl-C stops it gracefully; a second Ctrl-C stops it immediately.`,
  examples: ["guest-forms dev --port 4000"],
  hasSettings: true,
  async run(input, print) {
    const { dev } = await import("../processes/dev.js");
    await dev(input, print);
  },
});
