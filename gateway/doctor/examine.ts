import { type Db, openDb } from "../../server/database/db.js";
import { waitAtMost } from "../../server/timeout.js";
import { explain } from "../cli/failure.js";
import { CLOSE_TIMEOUT_SECONDS } from "../runtime/listening.js";
import { CHECKS, type CheckContext, checkDatabase, DATABASE_CHECKS } from "./checks.js";
import { type CheckResult, failed } from "./results.js";

export interface Report extends Omit<CheckResult, "status"> {
  name: string;
  /** `skipped`: the database check failed. */
  status: CheckResult["status"] | "skipped";
}

export const CHECK_NAMES: readonly string[] = Object.keys({ ...DATABASE_CHECKS, ...CHECKS });

/**
 * Runs all checks, or those with these names. Takes at most twice `CHECK_TIMEOUT_SECONDS`. Uses connections of its own unless
 * `db` is given.
 */
export async function examine(context: CheckContext, names = CHECK_NAMES, db?: Db): Promise<Report[]> {
  const chosen = <Check>(checks: Record<string, Check>) =>
    Object.entries(checks).filter(([name]) => names.includes(name));
  const others = chosen(CHECKS).map(([name, check]) => report(name, context, async () => check(context)));
  return [...(await examineDatabase(context, chosen(DATABASE_CHECKS), db)), ...(await Promise.all(others))];
}

type DatabaseChecks = [name: string, check: typeof checkDatabase][];

async function examineDatabase(context: CheckContext, checks: DatabaseChecks, given?: Db): Promise<Report[]> {
  const skipped = checks.map(([name]): Report => ({ name, status: "skipped", message: "The database check failed." }));
  if (!context.settings.DATABASE_URL) return [{ name: "database", ...failed("DATABASE_URL is not set.") }, ...skipped];
  let db: Db;
  try {
    db = given ?? openDb(context.settings);
  } catch (error) {
    // A file in DATABASE_URL that cannot be read.
    return [{ name: "database", ...failed(explain(error).message) }, ...skipped];
  }
  const run = ([name, check]: DatabaseChecks[number]) => report(name, context, () => check(context, db));
  try {
    const database = await run(["database", checkDatabase]);
    return [database, ...(database.status === "ok" ? await Promise.all(checks.map(run)) : skipped)];
  } finally {
    if (!given)
      await waitAtMost(
        CLOSE_TIMEOUT_SECONDS,
        db.close().catch(() => {}),
      );
  }
}

const CHECK_TIMEOUT_SECONDS = 10;

async function report(name: string, { settings }: CheckContext, run: () => Promise<CheckResult>): Promise<Report> {
  let result = failed(`No answer within ${CHECK_TIMEOUT_SECONDS} s.`);
  const done = run()
    .catch((error) => failed(explain(error, { databaseUrl: settings.DATABASE_URL }).message))
    .then((finished) => {
      result = finished;
    });
  await waitAtMost(CHECK_TIMEOUT_SECONDS, done);
  return { name, ...result };
}
