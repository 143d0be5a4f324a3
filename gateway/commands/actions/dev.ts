import { join, relative } from "node:path";
import type { Command } from "commander";
import { readSettings } from "../../../server/config.js";
import { openServices } from "../../../server/services.js";
import { waitAtMost } from "../../../server/timeout.js";
import { makeDataFolder, readDemo, removeAddress, saveAddress, saveDemo } from "../../dev/data-folder.js";
import { type Demo, prepareDemo, stay } from "../../dev/demo.js";
import { startEmbedded } from "../../dev/embedded.js";
import { createLog } from "../../process/log.js";
import type { Gateway } from "../../serve.js";
import type { DevOptions } from "../dev.js";
import { portIsChosen, type WithDatabase } from "../environment.js";
import { CommandFailure, explain } from "../failure.js";
import { print } from "../print.js";
import { type StopRequest, stopRequest } from "../stopping.js";
import { bringUpToDate } from "./migrate.js";
import { addressed, CLOSING_SECONDS, listening, PortTaken } from "./serve.js";

const progress = (line: string) => void process.stderr.write(`${line}\n`);

/** Runs the service with demo data until a signal asks to stop. */
export async function dev(options: DevOptions, command: Command): Promise<void> {
  const undo: (() => Promise<void> | void)[] = [];
  let kill = () => {};
  const stop = stopRequest(() => kill());
  try {
    const given = addressed(readSettings(), options);
    const folder = makeDataFolder();
    const url =
      given.DATABASE_URL ??
      (await embedded(join(folder, "postgres"), undo, (pid) => {
        kill = () => {
          removeAddress();
          process.kill(pid, "SIGINT");
        };
      }));
    const settings: WithDatabase = given.DATABASE_URL
      ? { ...given, DATABASE_URL: url }
      : { ...given, DATABASE_URL: url, DATABASE_DIRECT_URL: undefined, DATABASE_PREPARED: true };
    stop.check();
    const demo = await prepare(settings, stop);
    const gateway = await listen(settings, portIsChosen() || options.port !== undefined);
    undo.push(() => waitAtMost(settings.DRAIN_SECONDS + CLOSING_SECONDS, gateway.stop()));
    stop.check();
    const ready = describe(gateway.url, demo);
    print(command, ready, asText(ready));
    await stop.asked;
    progress("Stopping …");
  } catch (error) {
    // What a stop breaks off is no failure: Ctrl-C in a terminal reaches Postgres too.
    if (!stop.isAsked()) throw error;
  } finally {
    for (const step of undo.reverse()) await step();
  }
}

/** Starts the embedded Postgres and leaves its address for the other commands. */
async function embedded(
  dataDir: string,
  undo: (() => Promise<void> | void)[],
  onStart: (pid: number) => void,
): Promise<string> {
  progress(`Starting Postgres in ${relative(process.cwd(), dataDir)} …`);
  const postgres = await startEmbedded({ dataDir, durable: true, onProgress: progress }).catch((error) => {
    // One sentence, and sometimes the end of Postgres' log below it.
    const [sentence = "", ...log] = String(error.message).trim().split("\n");
    throw new CommandFailure(log.length > 0 ? `${sentence} Its log ends: ${log.at(-1)}` : sentence);
  });
  onStart(postgres.pid);
  undo.push(() => postgres.stop());
  saveAddress(postgres.url);
  undo.push(removeAddress);
  return postgres.url;
}

async function prepare(settings: WithDatabase, stop: StopRequest): Promise<Demo> {
  try {
    progress("Bringing the database up to date …");
    await bringUpToDate(settings, progress);
    stop.check();
    progress("Preparing the demo data …");
    const { services, close } = await openServices(settings, createLog(settings.LOG_LEVEL));
    return await prepareDemo(services, readDemo(), saveDemo).finally(close);
  } catch (error) {
    throw explain(error, { databaseUrl: settings.DATABASE_URL });
  }
}

/** Listens on the port of the settings or, where nobody chose that one, on a free port. */
async function listen(settings: WithDatabase, chosen: boolean): Promise<Gateway> {
  progress("Starting the gateway and the notification worker …");
  const log = createLog(settings.LOG_LEVEL);
  try {
    return await listening(settings, log, true);
  } catch (error) {
    if (chosen || !(error instanceof PortTaken)) throw error;
    progress(`Port ${settings.PORT} is taken: choosing a free one.`);
    return await listening({ ...settings, PORT: 0 }, log, true);
  }
}

/** What a newcomer needs; `curl` are lines to paste into a shell. */
interface Ready {
  url: string;
  docs: string;
  readWriteKey: string;
  readOnlyKey: string;
  listings: { id: string; title: string }[];
  curl: { create: string; list: string; listing: string };
}

function describe(url: string, { readWriteKey, readOnlyKey, listings }: Demo): Ready {
  const [first, second = first] = listings;
  if (!first || !second) throw new Error("The demo holder has no active listing.");
  const body = { ...stay(second, 30, 3, 2), guestEmail: "guest@example.com" };
  return {
    url,
    docs: `${url}/docs`,
    readWriteKey,
    readOnlyKey,
    listings: listings.map(({ id, title }) => ({ id, title })),
    curl: {
      create: [
        `curl -sS -X POST ${url}/v1/forms`,
        `-H 'Authorization: Bearer ${readWriteKey}'`,
        "-H 'Content-Type: application/json'",
        `-d '${JSON.stringify(body)}'`,
      ].join(" \\\n    "),
      list: `curl -sS '${url}/v1/forms?listingId=${second.id}' \\\n    -H 'Authorization: Bearer ${readOnlyKey}'`,
      listing: `curl -sS ${url}/v1/listings/${first.id} \\\n    -H 'Authorization: Bearer ${readOnlyKey}'`,
    },
  };
}

const asText = ({ url, docs, readWriteKey, readOnlyKey, listings, curl }: Ready) => `
Guest forms is running.

  Address          ${url}
  Read-write key   ${readWriteKey}
  Read-only key    ${readOnlyKey}
  Listings         ${listings.map(({ id, title }) => `${id}  ${title}`).join("\n                   ")}
  Reference        ${docs}

Create a form (sent again, it answers with the same form):

  ${curl.create}

List the forms on that listing, the new one last:

  ${curl.list}

Fetch a listing:

  ${curl.listing}

Stop it with Ctrl-C. The data stays in .data/ for the next start.
`;
