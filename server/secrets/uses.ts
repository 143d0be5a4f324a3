import { randomUUID } from "node:crypto";
import type { Services } from "../access/context.js";
import type { Db } from "../database/db.js";
import { waitAtMost } from "../timeout.js";

// Each process says every 20 s which APP_SECRETS it has, so that nothing is renewed with a secret that one of them lacks.

const ANNOUNCE_MS = 20_000;
/** A frozen database must not block the stop. */
const STOP_SECONDS = 2;
/** A process that has said nothing for so long has ended. */
const RUNNING_SECONDS = 60;

// Also deletes the rows of processes that were killed.
const ANNOUNCE = `
  WITH ended AS (DELETE FROM secret_uses WHERE last_at < now() - interval '1 hour')
  INSERT INTO secret_uses (process_id, secrets, last_at) VALUES ($1::uuid, $2::text[], now())
  ON CONFLICT (process_id) DO UPDATE SET last_at = excluded.last_at`;

const WITHDRAW = "DELETE FROM secret_uses WHERE process_id = $1::uuid";

/** Announces the secrets of this process until it is stopped. An outage of the database is reported by others. */
export function announceSecrets({ db, keyring }: Pick<Services, "db" | "keyring">): { stop(): Promise<void> } {
  const id = randomUUID();
  const announce = () => db.query("announce-secrets", ANNOUNCE, [id, [...keyring.ids]]).catch(() => {});
  const withdraw = () => db.query("withdraw-secrets", WITHDRAW, [id]).catch(() => {});
  let last = announce();
  const timer = setInterval(() => {
    last = announce();
  }, ANNOUNCE_MS).unref();
  return {
    async stop() {
      clearInterval(timer);
      await waitAtMost(STOP_SECONDS, last.then(withdraw));
    },
  };
}

const WITHOUT = `
  SELECT secrets, max(last_at) AS "lastAt" FROM secret_uses
  WHERE last_at > now() - interval '${RUNNING_SECONDS} seconds' AND $1 <> ALL(secrets)
  GROUP BY secrets ORDER BY secrets`;

/** The secrets, newest first, of processes that run, or were killed in the last minute, and lack the one with this id. */
export const findProcessesWithout = (db: Db, id: string) =>
  db.query<{ secrets: string[]; lastAt: string }>("processes-without-secret", WITHOUT, [id]);
