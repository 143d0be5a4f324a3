import type { Call } from "../access/context.js";
import { type Keyring, seal, tryOpen } from "../encryption.js";
import { bodyOf, renewCreation, renewFingerprint } from "../forms/idempotency.js";
import { FORM_COLUMNS, type FormRow, renewForms, type StoredAnswer } from "../forms/queries.js";
import { NIL_UUID } from "../values.js";
import { assertNewestInUse } from "./checks.js";
import { renewEndpoints } from "./endpoints.js";
import type { Renewed, reencryptInput } from "./schema.js";

/** Forms per transaction. Updates of these forms wait for it. */
const BATCH = 100;

/** A form and its create request. */
interface Row extends FormRow {
  guestEmail: Uint8Array | null;
  fingerprint: Uint8Array;
  /** Null if the form has no create request. */
  answer: StoredAnswer | null;
  createFingerprint: Uint8Array;
  secretId: string | null;
}

// LATERAL with LIMIT looks creations up one by one; a plain join could read them all.
const ROWS = `
  SELECT ${FORM_COLUMNS}, f.guest_email AS "guestEmail", f.fingerprint, c.answer,
    c.fingerprint AS "createFingerprint", c.secret_id AS "secretId"
  FROM forms f LEFT JOIN LATERAL (SELECT * FROM creations WHERE form_id = f.id LIMIT 1) c ON true`;

// `ORDER BY id`, the text in the select list, would read and sort all forms for each batch.
const READ = `${ROWS} WHERE f.id > $1::uuid ORDER BY f.id LIMIT ${BATCH}`;

const LOCK = `${ROWS} WHERE f.id = ANY($1::uuid[]) ORDER BY f.id FOR NO KEY UPDATE OF f`;

/**
 * Encrypts and fingerprints one batch of forms, those after this id, with the newest secret. A fingerprint can be made again
 * if its body is known: the stored response and address are that of the create unless the address was changed or erased.
 */
export async function reencryptBatch({ ctx, input }: Call<typeof reencryptInput>): Promise<Renewed> {
  const { db, keyring } = ctx.services;
  await assertNewestInUse(db, keyring.ids);
  const webhooks = input.after === undefined ? await renewEndpoints(db, keyring) : 0;
  const rows = await db.query<Row>("forms-to-renew", READ, [input.after ?? NIL_UUID]);
  const ids = rows.filter((row) => renew(row, keyring).isChanged).map(({ id }) => id);
  const next = rows.length === BATCH ? (rows.at(-1)?.id ?? null) : null;
  if (ids.length === 0) return { addresses: 0, creates: 0, webhooks, next };
  return db.sqlTransaction(async (tx) => {
    // Reads them again: others may have changed since.
    const locked = await tx.query<Row>("lock-forms-to-renew", LOCK, [ids]);
    const renewed = locked.map((row) => renew(row, keyring));
    const creates = renewed.flatMap(({ form: { id }, createFingerprint }) =>
      createFingerprint ? [{ formId: id, fingerprint: createFingerprint, secretId: keyring.ids[0] }] : [],
    );
    const forms = renewed.map(({ form }) => form);
    await tx.commit(renewForms(tx, forms), ...creates.map((create) => renewCreation(tx, create)));
    const addresses = renewed.filter(({ hasNewAddress }) => hasNewAddress).length;
    return { addresses, creates: creates.length, webhooks, next };
  });
}

/** What the newest secret makes of a form. What cannot be renewed, or need not be, stays as it is. */
function renew(row: Row, { ids, email, fingerprint: keys }: Keyring) {
  const { id, guestEmail, fingerprint } = row;
  const opened = guestEmail && tryOpen(email, guestEmail, id);
  const hasNewAddress = opened ? opened.position > 0 : false;
  // Null: the address came with a later update, or is not part of the fingerprint because it could not be decrypted.
  const addresses = opened ? [opened.text, null] : [null];
  // Null: an update has added only the external id.
  const idsOf = ({ externalId = null }: StoredAnswer) => [externalId, null];
  const bodiesOf = (form: StoredAnswer) =>
    addresses.flatMap((address) => idsOf(form).map((externalId) => bodyOf({ ...form, externalId }, address)));
  const current = renewFingerprint(keys, fingerprint, bodiesOf(row)) ?? fingerprint;
  const createFingerprint =
    row.answer && row.secretId !== ids[0]
      ? renewFingerprint(keys, row.createFingerprint, bodiesOf(row.answer))
      : undefined;
  return {
    form: {
      id,
      guestEmail: opened && hasNewAddress ? seal(email, opened.text, id) : guestEmail,
      fingerprint: current,
    },
    hasNewAddress,
    createFingerprint,
    isChanged: hasNewAddress || createFingerprint !== undefined || Buffer.compare(current, fingerprint) !== 0,
  };
}
