import type pg from "pg";
import { generateKey, hashKey, PREFIX_LENGTH } from "../../server/keys/authenticator.js";
import { HOLDERS, type HolderName } from "./dataset.js";

const LABEL = "bench";

/** Issues a read-write key for each holder and deletes those of earlier runs. Only this process knows the keys. */
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
