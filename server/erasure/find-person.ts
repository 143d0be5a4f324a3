import type { Call } from "../access/context.js";
import { auditLookUp, findFormsByAddress } from "../forms/find-by-address.js";
import { readFormsById } from "../forms/read-forms.js";
import type { FormV1 } from "../forms/schema.js";
import { inGroups } from "../values.js";
import type { addressInput } from "./schema.js";

/** Forms per statement. */
const BATCH = 200;

/** The forms that have a guest's address, oldest first. Audits the look-up, for each form that it finds, or for none. */
export async function findPerson({
  ctx,
  input,
}: Call<typeof addressInput>): Promise<{ forms: FormV1[]; unreadable: number }> {
  const { ids, unreadable } = await findFormsByAddress(ctx, input.email);
  const { db } = ctx.services;
  const forms: FormV1[] = [];
  for (const group of inGroups(ids, BATCH)) {
    await auditLookUp(db, ctx, group);
    forms.push(...(await readFormsById(ctx.services, group)));
  }
  if (ids.length === 0) await auditLookUp(db, ctx, []);
  forms.sort((a, b) => (`${a.createdAt} ${a.id}` < `${b.createdAt} ${b.id}` ? -1 : 1));
  return { forms, unreadable };
}
