import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import type { FormV1 } from "../../server/forms/schema.js";
import type { Page } from "../../server/resources/paging.js";
import { makeUserWithForms } from "../support/bulk.js";
import {
  asOperator,
  asUser,
  catchErrorCode,
  makeForm,
  makeKey,
  makeListing,
  makeUser,
  openTestServices,
  setRole,
} from "../support/factories.js";

const services = await openTestServices();
const operator = asOperator(services);
const ana = await makeUser(services, { email: "ana@example.com", name: "Ana" });
const ben = await makeUser(services, { email: "ben@example.com" });
const one = await makeListing(services, ana.id, { title: "One" });
const two = await makeListing(services, ana.id, { title: "Two" });
const three = await makeListing(services, ben.id, { title: "Three" });
await setRole(services, three.id, ana.id, "READER");
/** In creation order, on the three listings in turn. */
const forms: FormV1[] = [];
for (const { id } of [one, two, three, one, two, three]) {
  const user = id === three.id ? ben : ana;
  forms.push(await makeForm(services, user.id, id, { guestEmail: "guest@example.com" }));
}
const keys = [await makeKey(services, ana.id), await makeKey(services, ben.id), await makeKey(services, ana.id)];
// Revoked keys are listed, too.
await operator.keys.revoke({ id: keys[0]?.id ?? "" });

const userId = ana.id;

/** Filters of `forms.listAll`. */
interface Filters {
  listingId?: string;
  userId?: string;
  status?: string;
  checkInDay?: string;
}

const UNKNOWN = randomUUID();
interface Input {
  limit?: number;
  cursor?: string;
}

/** Fails unless the list with each filter has these items, in pages of every size. */
async function expectItems<Filter extends object, Item>(
  read: (input: Filter & Input) => Promise<Page<Item>>,
  expected: [filter: Filter, items: unknown[]][],
): Promise<void> {
  for (const [filter, wanted] of expected) {
    for (const limit of [1, 2, 4, 100]) {
      const items: Item[] = [];
      for (let cursor: string | undefined; ; ) {
        const page = await read({ ...filter, limit, ...(cursor && { cursor }) });
        expect(page.items.length).toBeLessThanOrEqual(limit);
        items.push(...page.items);
        if (page.nextCursor === null) break;
        cursor = page.nextCursor;
      }
      expect(items, JSON.stringify([filter, limit])).toEqual(wanted);
    }
  }
}

test("forms.getByPublicId returns a form and what the guest's page shows of its listing, to the operator only", async () => {
  const { id, listingId, publicId } = forms[0] as FormV1 & { publicId: string };
  const { form, listing } = await operator.forms.getByPublicId({ publicId });
  expect({ ...form, hasGuestEmail: true }).toEqual(await operator.forms.getAny({ id }));
  const {
    id: _,
    publicId: __,
    externalId,
    language,
    active,
    createdAt,
    ...shown
  } = await operator.listings.getAny({ id: listingId });
  expect(listing).toEqual(shown);
  for (const unknown of ["", id, `${publicId}x`, "\0".repeat(21), "x".repeat(21), one.publicId])
    expect(await catchErrorCode(operator.forms.getByPublicId({ publicId: unknown }))).toBe("RESOURCE_NOT_FOUND");
  const asHost = asUser(services, userId).forms.getByPublicId({ publicId });
  expect(await catchErrorCode(asHost)).toBe("FORBIDDEN");
});

test("forms.listAll returns the forms in a status in a scope of more than 5,000 forms", async () => {
  const large = await makeUserWithForms(services, { listings: 2, formsPerListing: 2_501, distinctTimes: 1_000 });
  await services.db.pool.query(
    `WITH chosen AS (
       SELECT form_id FROM scoped_forms WHERE user_id = $1 ORDER BY created_at, form_id OFFSET 2000 LIMIT 3
     )
     UPDATE forms SET status = 'REJECTED' WHERE id IN (SELECT form_id FROM chosen) OR id = $2`,
    [large, forms[0]?.id],
  );
  const { rows } = await services.db.pool.query(
    `SELECT f.id FROM scoped_forms s JOIN forms f ON f.id = s.form_id
     WHERE s.user_id = $1 AND f.status = 'REJECTED' ORDER BY f.created_at DESC, f.id DESC`,
    [large],
  );
  expect(rows).toHaveLength(3);
  await expectItems<Filters, unknown>(
    async (input) => {
      const { items, nextCursor } = await operator.forms.listAll(input);
      return { items: items.map(({ id }) => ({ id })), nextCursor };
    },
    [[{ status: "REJECTED", userId: large }, rows]],
  );
});

test("forms.listAll and forms.getAny return the public form without the address, and getAny whether there is one", async () => {
  const id = forms[0]?.id ?? "";
  const shown = await operator.forms.getAny({ id: id.toUpperCase() });
  expect(shown).toEqual({ ...(await asUser(services, userId).forms.get({ id })), hasGuestEmail: true });
  expect(JSON.stringify(await operator.forms.listAll({}))).not.toMatch(/guest@|email/i);
  for (const unknown of [UNKNOWN, "x", ""]) {
    expect(await catchErrorCode(operator.forms.getAny({ id: unknown }))).toBe("RESOURCE_NOT_FOUND");
  }
});
