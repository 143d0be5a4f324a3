import { isIPv6 } from "node:net";
import { relative } from "node:path";
import type { Logger } from "pino";
import { readSettings, type Settings } from "../../server/config.js";
import type { Mailer } from "../../server/emails/mailer.js";
import { maskEmail } from "../../server/emails/masking.js";
import { waitAtMost } from "../../server/timeout.js";
import { allowPrivateAddresses, type SettingsWithDatabase } from "../cli/environment.js";
import { CommandFailure } from "../cli/failure.js";
import type { Print } from "../cli/print.js";
import { withServices } from "../cli/services.js";
import {
  databaseFolder,
  ensureAppSecret,
  ensureInternalToken,
  makeDataFolder,
  readDemo,
  removeDatabaseUrl,
  removeDemo,
  saveDatabaseUrl,
  saveDemo,
} from "../dev/data-folder.js";
import { type Demo, prepareDemo } from "../dev/demo.js";
import { formInput } from "../dev/demo-facts.js";
import { type DemoReceiver, startDemoReceiver } from "../dev/demo-receiver.js";
import { removeEmbedded, startEmbedded } from "../dev/embedded.js";
import { CLOSE_TIMEOUT_SECONDS } from "../runtime/listening.js";
import { createLog, flushLogs, logCrash } from "../runtime/log.js";
import { printLine } from "../runtime/terminal.js";
import { prepareDatabase } from "./prepare-database.js";
import { type Address, applyAddress, PortTakenError, startListening } from "./start-listening.js";
import { listenForStop, onNpmExit, type StopRequest } from "./stopping.js";

interface DevOptions extends Address {
  /** Delete the data of earlier runs. */
  fresh: true | undefined;
}

const progress = (line: string) => printLine(process.stderr, line);

/** Runs the service with demo data until it is stopped by a signal. */
export async function dev(options: DevOptions, print: Print): Promise<void> {
  const cleanups: (() => Promise<void> | void)[] = [];
  const stop = listenForStop(() => cleanups.includes(removeDatabaseUrl) && removeDatabaseUrl());
  // A closed terminal ends npm, too: that is not a second request to stop.
  onNpmExit(() => stop.isRequested() || process.kill(process.pid, "SIGHUP"));
  try {
    const given = allowPrivateAddresses(applyAddress(readSettings(), options));
    if (options.fresh) await deleteDevData(given);
    makeDataFolder();
    const { APP_SECRETS = [ensureAppSecret()], INTERNAL_TOKEN = ensureInternalToken() } = given;
    const settings: SettingsWithDatabase = given.DATABASE_URL
      ? { ...given, APP_SECRETS, INTERNAL_TOKEN, DATABASE_URL: given.DATABASE_URL }
      : {
          ...given,
          APP_SECRETS,
          INTERNAL_TOKEN,
          DATABASE_URL: await startDevPostgres(cleanups),
          DATABASE_DIRECT_URL: undefined,
          DATABASE_REPLICA_URL: undefined,
          DATABASE_PREPARED: true,
        };
    stop.throwIfRequested();
    const receiver = await openReceiver(settings, cleanups);
    const demo = await prepareDatabaseAndDemo(settings, receiver, stop);
    const log = createLog(settings.LOG_LEVEL);
    logCrash(log);
    const fixedPorts = {
      PORT: Boolean(process.env.PORT) || options.port !== undefined,
      INTERNAL_PORT: Boolean(process.env.INTERNAL_PORT),
    };
    const gateway = await listenOnFreePorts(settings, log, fixedPorts);
    cleanups.push(() => waitAtMost(settings.DRAIN_SECONDS + CLOSE_TIMEOUT_SECONDS, gateway.stop()));
    stop.throwIfRequested();
    await flushLogs();
    const ready = describeService(gateway.url, demo, {
      url: `${gateway.internalUrl}/console`,
      // The operator's own token is not printed.
      token: given.INTERNAL_TOKEN ? undefined : INTERNAL_TOKEN,
    });
    print(ready, formatReady(ready));
    await stop.requested;
    progress("Stopping …");
  } catch (error) {
    // Ignore errors caused by the stop itself: Ctrl-C in a terminal also reaches initdb.
    if (!stop.isRequested()) throw error;
  } finally {
    for (const step of cleanups.reverse()) await step();
    await flushLogs();
  }
}

/** Deletes the embedded database and the demo keys. */
async function deleteDevData({ DATABASE_URL }: Settings): Promise<void> {
  if (DATABASE_URL) {
    throw new CommandFailure("--fresh deletes only the embedded database: unset DATABASE_URL, or omit --fresh.");
  }
  await removeEmbedded(databaseFolder());
  removeDemo();
}

/** Keeps the message's first line, and the last line of Postgres' log if there is one. */
function throwCommandFailure(error: Error): never {
  const [message = "", ...log] = error.message.trim().split("\n");
  throw new CommandFailure(log.length > 0 ? `${message} Last line of its log: ${log.at(-1)}` : message);
}

/** Starts the embedded Postgres and saves its URL for the other commands. */
async function startDevPostgres(cleanups: (() => Promise<void> | void)[]): Promise<string> {
  const dataDir = databaseFolder();
  progress(`Starting Postgres in ${relative(process.cwd(), dataDir)} …`);
  const postgres = await startEmbedded({ dataDir, durable: true, onProgress: progress }).catch(throwCommandFailure);
  cleanups.push(() => postgres.stop());
  saveDatabaseUrl(postgres.url);
  cleanups.push(removeDatabaseUrl);
  return postgres.url;
}

/** Undefined if WEBHOOK_ALLOW_PRIVATE_ADDRESSES is set to false. */
async function openReceiver(
  { WEBHOOK_ALLOW_PRIVATE_ADDRESSES }: Settings,
  cleanups: (() => Promise<void> | void)[],
): Promise<DemoReceiver | undefined> {
  if (!WEBHOOK_ALLOW_PRIVATE_ADDRESSES) return undefined;
  const receiver = await startDemoReceiver(progress);
  cleanups.push(() => receiver.close());
  return receiver;
}

async function prepareDatabaseAndDemo(
  settings: SettingsWithDatabase,
  receiver: DemoReceiver | undefined,
  stop: StopRequest,
): Promise<Demo> {
  progress("Migrating the database …");
  await prepareDatabase(settings, progress);
  stop.throwIfRequested();
  progress("Preparing the demo data …");
  return withServices(settings, async (services) => {
    const demo = await prepareDemo(services, readDemo(), saveDemo, receiver?.url);
    await receiver?.connect(services);
    return demo;
  });
}

/** Prints messages instead of sending them. Bypasses the logger because a guest's link must never be logged. */
const terminalMailer: Mailer = {
  isPrinter: true,
  async send({ from: { name, address }, subject, text }, to) {
    const lines = [
      `From: ${name} <${address}>`,
      `To: ${maskEmail(to)}`,
      `Subject: ${subject}`,
      "",
      ...`${text}`.split("\n"),
    ];
    progress(`\nEmail, not sent because SMTP_URL is not set:\n\n  ${lines.join("\n  ").trimEnd()}\n`);
    return null;
  },
};

const MAX_PORTS_TO_TRY = 100;

/** Listens on PORT and INTERNAL_PORT or, unless they are fixed, on the next free ports. */
async function listenOnFreePorts(
  settings: SettingsWithDatabase,
  log: Logger,
  isFixed: Record<PortTakenError["setting"], boolean>,
) {
  progress("Starting the gateway and the worker …");
  const { PORT, INTERNAL_PORT } = settings;
  const isInternalTaken = INTERNAL_PORT === PORT && !isFixed.INTERNAL_PORT;
  const ports = { PORT, INTERNAL_PORT: isInternalTaken ? INTERNAL_PORT + 1 : INTERNAL_PORT };
  const mailer = settings.SMTP_URL ? undefined : terminalMailer;
  for (;;) {
    try {
      const { PUBLIC_URL = localUrl(settings.HOST, ports.PORT) } = settings;
      return await startListening({ ...settings, ...ports, PUBLIC_URL }, log, true, mailer);
    } catch (error) {
      if (!(error instanceof PortTakenError)) throw error;
      const { setting } = error;
      const taken = ports[setting];
      if (isFixed[setting] || taken >= settings[setting] + MAX_PORTS_TO_TRY) throw error;
      do ports[setting] += 1;
      while (ports.PORT === ports.INTERNAL_PORT);
      progress(`Port ${taken} is in use: trying ${ports[setting]}.`);
    }
  }
}

/** Undefined for port 0, which the system replaces later, and for an address that stands for all. */
const localUrl = (host: string, port: number) =>
  port === 0 || host === "0.0.0.0" || host === "::" ? undefined : `http://${isIPv6(host) ? `[${host}]` : host}:${port}`;

/** Adds a newline after the response, so that the prompt starts on its own line. */
const CURL = "curl -sS -w '\\n'";

/** What --json prints. `curl` holds commands to paste into a shell. */
function describeService(
  url: string,
  { readWriteKey, readOnlyKey, listings }: Demo,
  operatorConsole: { url: string; token: string | undefined },
) {
  const [first, second = first] = listings.filter(({ active }) => active);
  if (!first || !second) throw new Error("The demo key holder has no active listing.");
  const body = { ...formInput(second.id, 30, 3, 2), guestEmail: "guest@example.com" };
  return {
    url,
    docs: `${url}/docs`,
    console: operatorConsole,
    readWriteKey,
    readOnlyKey,
    listings: listings.map(({ id, title, active }) => ({ id, title, active })),
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

const describeListing = ({ id, title, active }: Pick<Demo["listings"][number], "id" | "title" | "active">) =>
  `${id}  ${title}${active ? "" : " (inactive: rejects new forms)"}`;

const formatReady = (ready: ReturnType<typeof describeService>) => {
  const { url, docs, readWriteKey, readOnlyKey, listings, curl } = ready;
  const { url: consoleUrl, token = "the one in INTERNAL_TOKEN" } = ready.console;
  return `
Guest forms is running.

  URL              ${url}
  Read-write key   ${readWriteKey}
  Read-only key    ${readOnlyKey}
  Listings         ${listings.map(describeListing).join("\n                   ")}
  API reference    ${docs}
  Console          ${consoleUrl}
  Console token    ${token}

Sign in to the console with this token and any name.

For the examples of the documentation:

  export GUEST_FORMS_BASE_URL=${url}
  export GUEST_FORMS_API_KEY=${readWriteKey}
  export LISTING_ID=${listings[0]?.id}

Create a form (sending it again returns the same form):

  ${curl.create}

List the forms on that listing, oldest first:

  ${curl.list}

Fetch a listing:

  ${curl.listing}

Manage users, listings, keys and forms in another terminal, in this folder: npx guest-forms --help

Stop it with Ctrl-C. The data is kept in .data/ for the next start.
`;
};
