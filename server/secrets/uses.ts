import type { Services } from "../access/context.js";
import type { Db } from "../database/db.js";

// Each process with APP_SECRETS says every 20 s which secrets it has, so that nothing is renewed with a secret that one of them lacks.
// Processes with the same secrets share a row.

const ANNOUNCE_MS = 20_000;
const RUNNING_SECONDS = 60;

const ANNOUNCE = `
  INSERT INTO secret_uses (secrets, last_at) VALUES ($1, now())
  ON CONFLICT (secrets) DO UPDATE SET last_at = greatest(secret_uses.last_at, excluded.last_at)`;

/** Announces the secrets of this process until it is stopped. An outage is reported by others. */
export function announceSecrets({ db, keyring }: Pick<Services, "db" | "keyring">): { stop(): void } {
  const announce = () => void db.query("announce-secrets", ANNOUNCE, [keyring.ids.join(" ")]).catch(() => {});
  announce();
  const timer = setInterval(announce, ANNOUNCE_MS).unref();
  return { stop: () => clearInterval(timer) };
}

const WITHOUT = `
  SELECT secrets, last_at AS "lastAt" FROM secret_uses
  WHERE last_at > now() - interval '${RUNNING_SECONDS} seconds' AND $1 <> ALL(string_to_array(secrets, ' '))
  ORDER BY secrets`;

/** Sets of secrets that lack the one with this id, of processes that were running in the last minute. */
export async function findProcessesWithout(db: Db, id: string): Promise<{ secrets: string[]; lastAt: string }[]> {
  const rows = await db.query<{ secrets: string; lastAt: string }>("processes-without-secret", WITHOUT, [id]);
  return rows.map(({ secrets, lastAt }) => ({ secrets: secrets.split(" "), lastAt }));
}
