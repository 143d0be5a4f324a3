import { checkStandby } from "../../gateway/doctor/standby.js";
import type { Services } from "../../server/access/context.js";
import { openDb } from "../../server/database/db.js";

/** The statements before a read from a standby, with the primary as its standby, which it is found not to be. */
export async function readFromStandby({ db, settings }: Services): Promise<void> {
  const url = new URL(db.url);
  // The server of the tests acknowledges commits before it has stored them.
  url.searchParams.set("options", `${url.searchParams.get("options") ?? ""} -c synchronous_commit=on`.trim());
  const durable = openDb({ ...settings, DATABASE_URL: url.href });
  await checkStandby({ settings: { ...settings, DATABASE_REPLICA_URL: url.href } }, durable);
  await durable.close();
}
