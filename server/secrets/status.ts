import type { Call } from "../access/context.js";
import type { Db } from "../database/db.js";
import { secretId, tryOpen } from "../encryption.js";
import { readStoredAddresses } from "../forms/find-by-address.js";
import { assertNewestInUse } from "./checks.js";
import { countEndpoints } from "./endpoints.js";
import type { SecretsStatus, SecretUse, statusInput } from "./schema.js";

// A create can be sent again until its own stay ends, also if an update has moved the form's, or cancelled the form.
const COUNT_CREATES = `
  SELECT id, count(*)::int AS creates, max(until) AS until
  FROM (
    SELECT c.secret_id AS id, greatest(f.check_out_date, (c.answer ->> 'checkOutDate')::timestamptz) AS until
    FROM creations c JOIN forms f ON f.id = c.form_id
  ) AS uses
  WHERE until > now() GROUP BY id ORDER BY id`;

export async function countUses({ ctx }: Call<typeof statusInput>): Promise<SecretsStatus> {
  const { db, keyring } = ctx.services;
  await assertNewestInUse(db, keyring.ids);
  const addresses = keyring.ids.map(() => 0);
  let unreadable = 0;
  for await (const rows of readStoredAddresses(db)) {
    for (const { id, guest_email } of rows) {
      const opened = tryOpen(keyring.email, guest_email, id);
      if (opened) addresses[opened.position] = (addresses[opened.position] ?? 0) + 1;
      else unreadable++;
    }
  }
  const endpoints = await countEndpoints(db, keyring);
  const creates = await db.longTransaction((tx) =>
    tx.query<Pick<SecretUse, "id" | "creates" | "until">>("creates-by-secret", COUNT_CREATES, []),
  );
  const ofSecret = (id: string) => creates.find((use) => use.id === id) ?? { id, creates: 0, until: null };
  const secrets = [
    ...keyring.ids.map((id, index) => ({
      ...ofSecret(id),
      position: index + 1,
      addresses: addresses[index] ?? 0,
      webhooks: endpoints.needed[index] ?? 0,
    })),
    ...creates
      .filter(({ id }) => !keyring.ids.includes(id))
      .map((use) => ({ ...use, position: null, addresses: 0, webhooks: 0 })),
  ];
  const status = { secrets, unreadable, unreadableWebhooks: endpoints.unreadable };
  await storeNeeds(db, status);
  return status;
}

const READ = "SELECT encode(value, 'hex') AS value FROM secret_checks WHERE newest_since IS NOT NULL";

// A secret that was never the newest has made nothing yet.
const STORE = `
  UPDATE secret_checks s SET needed_until = CASE WHEN NOT has_data THEN coalesce(until, now()) END
  FROM unnest($1::text[], $2::boolean[], $3::timestamptz[]) AS use(value, has_data, until)
  WHERE s.value = decode(use.value, 'hex')`;

/** Stores until when the older secrets are needed, so that `doctor` knows it without them. */
async function storeNeeds(db: Db, { secrets, unreadable, unreadableWebhooks }: SecretsStatus): Promise<void> {
  const [newest] = secrets;
  const registered = await db.query<{ value: string }>("registered-secrets", READ, []);
  const older = registered.map(({ value }) => value).filter((value) => secretId(value) !== newest?.id);
  const uses = older.map((value) => secrets.find(({ id }) => id === secretId(value)));
  // What cannot be read may be of any secret that is not listed.
  const hasData = uses.map((use) =>
    use?.position ? use.addresses + use.webhooks > 0 : unreadable + unreadableWebhooks > 0,
  );
  const until = uses.map((use) => use?.until ?? null);
  await db.query("store-needs", STORE, [older, hasData, until]);
}
