import type { Call } from "../access/context.js";
import { tryOpen } from "../encryption.js";
import { readFormsById } from "../forms/read-forms.js";
import type { FormV1 } from "../forms/schema.js";
import { readStoredAddresses } from "./erase.js";
import type { addressInput } from "./schema.js";

/** Decrypts all stored addresses in batches, because encrypted ones cannot be searched. */
export async function findPerson({
  ctx,
  input,
}: Call<typeof addressInput>): Promise<{ forms: FormV1[]; unreadable: number }> {
  const { db, keyring } = ctx.services;
  const wanted = input.email.toLowerCase();
  const forms: FormV1[] = [];
  let unreadable = 0;
  for await (const rows of readStoredAddresses(db)) {
    const addresses = rows.map(({ id, guest_email }) => tryOpen(keyring.email, guest_email, id)?.text.toLowerCase());
    unreadable += addresses.filter((address) => address === undefined).length;
    const found = rows.filter((_, index) => addresses[index] === wanted).map(({ id }) => id);
    if (found.length > 0) forms.push(...(await readFormsById(ctx.services, found)));
  }
  forms.sort((a, b) => (`${a.createdAt} ${a.id}` < `${b.createdAt} ${b.id}` ? -1 : 1));
  return { forms, unreadable };
}
