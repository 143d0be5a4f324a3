import { relative } from "node:path";
import type { Command } from "commander";
import type { Logger } from "pino";
import { readSettings, type Settings } from "../../server/config.js";
import { waitAtMost } from "../../server/timeout.js";
import {
  databaseFolder,
  makeDataFolder,
  readDemo,
  removeAddress,
  removeDemo,
  saveAddress,
  saveDemo,
} from "../dev/data-folder.js";
import { type Demo, prepareDemo, stay } from "../dev/demo.js";
import { removeEmbedded, startEmbedded } from "../dev/embedded.js";
import { onNpmEnd } from "../dev/npm-parent.js";
import { terminalMailer } from "../dev/terminal-mailer.js";
import { createLog, flushLogs } from "../process/log.js";
import type { Gateway } from "../serve.js";
import { bringUpToDate } from "./bring-up-to-date.js";
import { portIsChosen, type WithDatabase } from "./environment.js";
import { CommandFailure } from "./failure.js";
import { type Address, addressed, CLOSING_SECONDS, listening, PortTaken } from "./listening.js";
import { print } from "./print.js";
import { withServices } from "./services.js";
import { type StopRequest, stopRequest } from "./stopping.js";

export interface DevOptions extends Address {
  /** Delete what earlier starts kept. */
  fresh?: boolean;
}

const progress = (line: string) => void process.stderr.write(`${line}\n`);

/** Runs the service with demo data until a signal asks to stop. */
export async function dev(options: DevOptions, command: Command): Promise<void> {
  const undo: (() => Promise<void> | void)[] = [];
  const force = () => undo.includes(removeAddress) && removeAddress();
  const stop = stopRequest(force);
  onNpmEnd(() => process.kill(process.pid, "SIGHUP"));
  try {
    const given = addressed(readSettings(), options);
    if (options.fresh) await startAfresh(given);
    makeDataFolder();
    const url = given.DATABASE_URL ?? (await embedded(undo));
    const settings: WithDatabase = given.DATABASE_URL
      ? { ...given, DATABASE_URL: url }
      : { ...given, DATABASE_URL: url, DATABASE_DIRECT_URL: undefined, DATABASE_PREPARED: true };
    stop.check();
    const demo = await prepare(settings, stop);
    const log = createLog(settings.LOG_LEVEL);
    const gateway = await listen(settings, log, portIsChosen() || options.port !== undefined);
    undo.push(() => waitAtMost(settings.DRAIN_SECONDS + CLOSING_SECONDS, gateway.stop()));
    stop.check();
    await flushLogs();
    const ready = describe(gateway.url, demo);
    print(command, ready, asText(ready));
    await stop.asked;
    progress("Stopping …");
  } catch (error) {
    // What a stop breaks off is no failure: Ctrl-C in a terminal also reaches initdb.
    if (!stop.isAsked()) throw error;
  } finally {
    for (const step of undo.reverse()) await step();
  }
}

/** Deletes the embedded database and the demo keys. */
async function startAfresh({ DATABASE_URL }: Settings): Promise<void> {
  if (DATABASE_URL) {
    throw new CommandFailure(
      "--fresh deletes the embedded database alone: unset DATABASE_URL, or leave --fresh out.",
    );
  }
  await removeEmbedded(databaseFolder()).catch(fail);
  removeDemo();
}

/** One sentence, which the end of Postgres' log may follow. */
function fail(error: Error): never {
  const [sentence = "", ...log] = error.message.trim().split("\n");
  throw new CommandFailure(log.length > 0 ? `${sentence} Its log ends: ${log.at(-1)}` : sentence);
}

/** Starts the embedded Postgres and leaves its address for the other commands. */
async function embedded(undo: (() => Promise<void> | void)[]): Promise<string> {
  const dataDir = databaseFolder();
  progress(`Starting Postgres in ${relative(process.cwd(), dataDir)} …`);
  const postgres = await startEmbedded({ dataDir, durable: true, onProgress: progress }).catch(fail);
  undo.push(() => postgres.stop());
  saveAddress(postgres.url);
  undo.push(removeAddress);
  return postgres.url;
}

async function prepare(settings: WithDatabase, stop: StopRequest): Promise<Demo> {
  progress("Bringing the database up to date …");
  await bringUpToDate(settings, progress);
  stop.check();
  progress("Preparing the demo data …");
  return withServices(settings, (services) => prepareDemo(services, readDemo(), saveDemo));
}

const MAX_PORTS = 100;

/** Listens on the port of the settings or, if nobody chose that one, on the next free one: the same at each start. */
async function listen(settings: WithDatabase, log: Logger, isChosen: boolean): Promise<Gateway> {
  progress("Starting the gateway and the notification worker …");
  const { PORT, INTERNAL_TOKEN, INTERNAL_PORT } = settings;
  const mailer = settings.SMTP_URL ? undefined : terminalMailer(progress);
  for (let port = PORT; ; ) {
    try {
      return await listening({ ...settings, PORT: port }, log, true, mailer);
    } catch (error) {
      if (isChosen || !(error instanceof PortTaken) || port >= PORT + MAX_PORTS) throw error;
      const taken = port;
      do port += 1;
      while (INTERNAL_TOKEN && port === INTERNAL_PORT);
      progress(`Port ${taken} is taken: trying ${port}.`);
    }
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

/** With a line end after the answer, which has none, so that the prompt does not stick to it. */
const CURL = "curl -sS -w '\\n'";

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
        `${CURL} -X POST ${url}/v1/forms`,
        `-H 'Authorization: Bearer ${readWriteKey}'`,
        "-H 'Content-Type: application/json'",
        `-d '${JSON.stringify(body)}'`,
      ].join(" \\\n    "),
      list: `${CURL} '${url}/v1/forms?listingId=${second.id}' \\\n    -H 'Authorization: Bearer ${readOnlyKey}'`,
      listing: `${CURL} ${url}/v1/listings/${first.id} \\\n    -H 'Authorization: Bearer ${readOnlyKey}'`,
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
