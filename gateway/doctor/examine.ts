import { setTimeout as sleep } from "node:timers/promises";
import { type Db, openDb } from "../../server/db.js";
import { dbSettings } from "../../server/services.js";
import { waitAtMost } from "../../server/timeout.js";
import { explain } from "../commands/failure.js";
import { CLOSE_TIMEOUT_SECONDS } from "../commands/start-listening.js";
import { type Check, type CheckContext, type CheckResult, type DatabaseCheck, failed } from "./check.js";
import { connectionsCheck } from "./connections.js";
import { clockCheck, databaseCheck, schemaCheck } from "./database.js";
import { mailServerCheck } from "./mail.js";
import { notificationsCheck } from "./notifications.js";
import { redisCheck } from "./redis.js";
import { secretsCheck } from "./secrets.js";
import { settingsCheck } from "./settings.js";

/** Checks in the order they are printed. DATABASE_CHECKS run after `databaseCheck`. */
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
  /** `skipped`: the database check failed. */
  status: CheckResult["status"] | "skipped";
  message: string;
}

/** Runs all checks. Takes at most twice `CHECK_TIMEOUT_SECONDS`. */
export async function examine(context: CheckContext): Promise<Report[]> {
  const others = Promise.all(CHECKS.map(({ name, run }) => report(name, context, async () => run(context))));
  return [...(await examineDatabase(context)), ...(await others)];
}

async function examineDatabase(context: CheckContext): Promise<Report[]> {
  const { settings } = context;
  if (!settings.DATABASE_URL)
    return [{ name: databaseCheck.name, ...failed("DATABASE_URL is not set.") }, ...skipped()];
  const db = openDb(dbSettings(settings));
  const run = (check: DatabaseCheck) => report(check.name, context, () => check.run(context, db));
  try {
    const database = await run(databaseCheck);
    return [
      database,
      ...(database.status === "ok" ? await Promise.all(DATABASE_CHECKS.map(run)) : skipped()),
    ];
  } finally {
    await waitAtMost(CLOSE_TIMEOUT_SECONDS, close(db));
  }
}

const close = (db: Db) => db.close().catch(() => {});

const skipped = (): Report[] =>
  DATABASE_CHECKS.map(({ name }) => ({ name, status: "skipped", message: "The database check failed." }));

const CHECK_TIMEOUT_SECONDS = 10;

async function report(
  name: string,
  { settings }: CheckContext,
  run: () => Promise<CheckResult>,
): Promise<Report> {
  const done = new AbortController();
  const timeout = sleep(
    CHECK_TIMEOUT_SECONDS * 1000,
    failed(`No answer within ${CHECK_TIMEOUT_SECONDS} s.`),
    {
      signal: done.signal,
    },
  );
  timeout.catch(() => {});
  const result = run().catch((error) =>
    failed(explain(error, { databaseUrl: settings.DATABASE_URL }).message),
  );
  return { name, ...(await Promise.race([result, timeout]).finally(() => done.abort())) };
}
