import type pg from "pg";
import { generateKey, hashKey, PREFIX_LENGTH } from "../../server/keys/authenticator.js";
import { HOLDERS, type HolderName } from "./shape.js";

const LABEL = "bench";

/** A new read-write key for each holder; those of earlier runs are gone. Nothing keeps them but this process. */
export async function issueKeys(client: pg.Client): Promise<Record<HolderName, string>> {
  await client.query("DELETE FROM api_keys WHERE label = $1", [LABEL]);
  const keys = HOLDERS.map(({ name }, index) => ({
    name,
    user: `user${index + 1}`,
    key: generateKey("READ_WRITE"),
  }));
  for (const { user, key } of keys) {
    await client.query(
      `INSERT INTO api_keys (user_id, hash, prefix, mode, label) VALUES (md5($1)::uuid, $2, $3, 'READ_WRITE', $4)`,
      [user, hashKey(key), key.slice(0, PREFIX_LENGTH), LABEL],
    );
  }
  return Object.fromEntries(keys.map(({ name, key }) => [name, key])) as Record<HolderName, string>;
}
