import { setTimeout as sleep } from "node:timers/promises";
import { type Db, openDb } from "../../server/db.js";
import { dbSettings } from "../../server/services.js";
import { waitAtMost } from "../../server/timeout.js";
import { explain } from "../commands/failure.js";
import { CLOSING_SECONDS } from "../commands/listening.js";
import { type Check, type DatabaseCheck, type Examined, type Finding, failed } from "./check.js";
import { connectionsCheck } from "./connections.js";
import { clockCheck, databaseCheck, schemaCheck } from "./database.js";
import { mailServerCheck } from "./mail.js";
import { notificationsCheck } from "./notifications.js";
import { redisCheck } from "./redis.js";
import { secretsCheck } from "./secrets.js";
import { settingsCheck } from "./settings.js";

/** Every check, in the order in which they are printed. Those of the database come after `databaseCheck`. */
const CHECKS: Check[] = [settingsCheck, mailServerCheck, redisCheck];
const DATABASE_CHECKS: DatabaseCheck[] = [
  schemaCheck,
  secretsCheck,
  connectionsCheck,
  clockCheck,
  notificationsCheck,
];

export interface Report {
  name: string;
  /** `skipped`: it needs the database, which cannot be reached. */
  status: Finding["status"] | "skipped";
  message: string;
}

/** Runs all checks; takes twice `MAX_CHECK_SECONDS` at most, whatever does not answer. */
export async function examine(examined: Examined): Promise<Report[]> {
  const others = Promise.all(
    CHECKS.map(({ name, run }) => report(name, examined, async () => run(examined))),
  );
  return [...(await examineDatabase(examined)), ...(await others)];
}

async function examineDatabase(examined: Examined): Promise<Report[]> {
  const { settings } = examined;
  if (!settings.DATABASE_URL)
    return [{ name: databaseCheck.name, ...failed("DATABASE_URL is not set.") }, ...skipped()];
  const db = openDb(dbSettings(settings));
  const run = (check: DatabaseCheck) => report(check.name, examined, () => check.run(examined, db));
  try {
    const database = await run(databaseCheck);
    return [
      database,
      ...(database.status === "ok" ? await Promise.all(DATABASE_CHECKS.map(run)) : skipped()),
    ];
  } finally {
    await waitAtMost(CLOSING_SECONDS, close(db));
  }
}

const close = (db: Db) => db.close().catch(() => {});

const skipped = (): Report[] =>
  DATABASE_CHECKS.map(({ name }) => ({ name, status: "skipped", message: "It needs the database." }));

const MAX_CHECK_SECONDS = 10;

async function report(name: string, { settings }: Examined, run: () => Promise<Finding>): Promise<Report> {
  const over = new AbortController();
  const late = sleep(MAX_CHECK_SECONDS * 1000, failed(`No answer within ${MAX_CHECK_SECONDS} s.`), {
    signal: over.signal,
  });
  late.catch(() => {});
  const finding = run().catch((error) =>
    failed(explain(error, { databaseUrl: settings.DATABASE_URL }).message),
  );
  return { name, ...(await Promise.race([finding, late]).finally(() => over.abort())) };
}
