import type { Db, Sql } from "../database/db.js";
import { type Keyring, seal, tryOpen } from "../encryption.js";
import { NIL_UUID } from "../values.js";

/** Endpoints per read and per transaction. */
const BATCH = 200;

interface SealedEndpoint {
  id: string;
  secret: Uint8Array;
  previousSecrets: Uint8Array[];
}

const SEALED = `
  SELECT w.id::text, w.secret, w.previous_secrets AS "previousSecrets" FROM webhook_endpoints w`;

const READ = `${SEALED} WHERE w.id > $1::uuid ORDER BY w.id LIMIT ${BATCH}`;
const LOCK = `${SEALED} WHERE w.id = ANY($1::uuid[]) ORDER BY w.id FOR NO KEY UPDATE`;

async function* readEndpoints(db: Db): AsyncGenerator<SealedEndpoint[]> {
  let last = NIL_UUID;
  for (let isFull = true; isFull; ) {
    const rows = await db.query<SealedEndpoint>("sealed-endpoints", READ, [last]);
    yield rows;
    isFull = rows.length === BATCH;
    last = rows.at(-1)?.id ?? last;
  }
}

/** The position of the oldest secret that is needed to read these; undefined if one cannot be read. */
function neededPosition({ webhook }: Keyring, { id, secret, previousSecrets }: SealedEndpoint): number | undefined {
  const positions = [secret, ...previousSecrets].map((sealed) => tryOpen(webhook, sealed, id)?.position);
  return positions.includes(undefined) ? undefined : Math.max(...positions.map((position) => position ?? 0));
}

/** How many endpoints need each secret of the keyring, and how many cannot be read. */
export async function countEndpoints(db: Db, keyring: Keyring) {
  const needed = keyring.ids.map(() => 0);
  let unreadable = 0;
  for await (const rows of readEndpoints(db)) {
    for (const row of rows) {
      const position = neededPosition(keyring, row);
      if (position === undefined) unreadable++;
      else needed[position] = (needed[position] ?? 0) + 1;
    }
  }
  return { needed, unreadable };
}

const RENEW = "UPDATE webhook_endpoints SET secret = $2::bytea, previous_secrets = $3::bytea[] WHERE id = $1::uuid";

/** Encrypts the secrets of all endpoints with the newest secret, except those that cannot be read. Returns how many it renewed. */
export async function renewEndpoints(db: Db, keyring: Keyring): Promise<number> {
  let renewed = 0;
  for await (const rows of readEndpoints(db)) {
    const ids = rows.filter((row) => (neededPosition(keyring, row) ?? 0) > 0).map(({ id }) => id);
    if (ids.length === 0) continue;
    await db.sqlTransaction((tx) => renew(tx, keyring, ids));
    renewed += ids.length;
  }
  return renewed;
}

async function renew(tx: Sql, { webhook }: Keyring, ids: string[]): Promise<void> {
  // Reads them again: others may have changed since.
  const locked = await tx.query<SealedEndpoint>("lock-endpoints-to-renew", LOCK, [ids]);
  await Promise.all(
    locked.map(({ id, secret, previousSecrets }) => {
      const reseal = (sealed: Uint8Array) => {
        const opened = tryOpen(webhook, sealed, id);
        return opened ? seal(webhook, opened.text, id) : sealed;
      };
      return tx.query("renew-endpoint", RENEW, [id, reseal(secret), previousSecrets.map(reseal)]);
    }),
  );
}
