import type { Settings } from "../../server/config.js";
import { describeConnectionFailure } from "../../server/connection-failures.js";
import type { Db } from "../../server/database/db.js";
import type { NeedsPrimary } from "../../server/database/reads.js";
import { markTimeline, openReads } from "../../server/database/standby.js";
import { redactUrl } from "../cli/failure.js";
import { type CheckResult, ok, warning } from "./results.js";

const READS = 5;

/** Reads as requests do. A standby that cannot be used is no failure: the primary is read. */
export async function checkStandby({ settings }: { settings: Settings }, db: Db): Promise<CheckResult> {
  const { DATABASE_REPLICA_URL: url } = settings;
  if (url === undefined) return ok("DATABASE_REPLICA_URL is not set: all is read from the primary.");
  const server = `The standby at ${new URL(url).host}`;
  /** Why each read left the standby; undefined for one that did not. */
  const causes: (NeedsPrimary | undefined)[] = [];
  await markTimeline(db);
  while (causes.length < READS) {
    const { reads, close } = openReads(settings, db, { onRead: (_, cause) => causes.push(cause), onUse() {} });
    await reads.run((sql) => sql.query("probe", "SELECT", []), new AbortController().signal).finally(close);
  }
  const used = causes.filter((cause) => cause === undefined).length;
  if (used > 0) return ok(`${server} has what the primary has stored: of ${READS} reads, ${used} ran there.`);
  const cause = causes.find((each) => each?.reason === "failed")?.cause;
  const found = cause
    ? `cannot be used: ${redactUrl(describeConnectionFailure(cause, "DATABASE_REPLICA_URL"), url)}`
    : "is behind the primary, or follows another one: check its replication";
  return warning(`${server} ${found.replace(/\.$/, "")}. Until then, all is read from the primary.`);
}
