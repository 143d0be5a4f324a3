import { describe, expect, test } from "vitest";
import { encodeCursor } from "../../server/resources/paging.js";
import { formIdsInScope } from "../support/bulk.js";
import { asUser } from "../support/factories.js";
import { FORMS, makeLargeListing } from "./large-listing.js";

const { filler, services, ownerId, listingId, memberId, setMember, removeMember, importRole } =
  await makeLargeListing();

const countRows = async (sql: string, id: string): Promise<number> =>
  (await filler.db.pool.query<{ n: number }>(`SELECT count(*)::int AS n FROM ${sql}`, [id])).rows[0]?.n ?? 0;

/** Counts the forms in the user's scope. */
const countScoped = (userId: string) => countRows("scoped_forms WHERE user_id = $1", userId);

/** Counts the forms on the large listing, which grow while it is tested. */
const countForms = () => countRows("forms WHERE listing_id = $1", listingId);

/** Asserts that all forms of the large listing are in the member's scope. */
async function expectAllScoped(): Promise<void> {
  const forms = await countForms();
  expect(forms).toBeGreaterThanOrEqual(FORMS);
  expect(await countScoped(memberId)).toBe(forms);
}

/** Returns the cursor after the form at this position of the list, counted from 1. */
async function cursorAfter(position: number): Promise<string> {
  const { rows } = await filler.db.pool.query<{ id: string; at: number }>(
    `SELECT id, (extract(epoch FROM created_at) * 1000)::float8 AS at FROM forms WHERE listing_id = $1
     ORDER BY created_at, id OFFSET $2 LIMIT 1`,
    [listingId, position - 1],
  );
  const { id = "", at = 0 } = rows[0] ?? {};
  return encodeCursor(services.keyring.cursor, { list: "forms" }, { createdAt: Math.round(at), id });
}

describe(`a listing of ${FORMS} forms, too many to update their scope within the statement timeout`, () => {
  test("the command `members set` gives access to all its forms while every request of other key holders succeeds", async () => {
    expect((await setMember()).output).toMatchObject({ role: "writer" });
    await expectAllScoped();
    const { list } = asUser(services, memberId).forms;
    const cursor = await cursorAfter((await countForms()) - 100);
    const [firstPage, lastPage] = [await list({ limit: 100 }), await list({ limit: 100, cursor })];
    const allForms = await formIdsInScope(filler, memberId);
    expect(allForms).toHaveLength(await countForms());
    expect(firstPage.items.map(({ id }) => id)).toEqual(allForms.slice(0, 100));
    expect(firstPage.nextCursor).not.toBeNull();
    expect(lastPage.items.map(({ id }) => id)).toEqual(allForms.slice(-100));
    expect(lastPage.nextCursor).toBeNull();
  });

  test("the command `members remove` revokes access to all of them while every request of other key holders succeeds", async () => {
    await removeMember();
    expect(await countScoped(memberId)).toBe(0);
    const empty = { items: [], nextCursor: null };
    expect(await asUser(services, memberId).forms.list({})).toEqual(empty);
    expect(await countScoped(ownerId)).toBe(await countForms());
  });

  test("the import of a membership gives access to all of them while every request of other key holders succeeds, and so does its end", async () => {
    expect((await importRole("WRITER")).output).toMatchObject({ memberships: { created: 2 } });
    await expectAllScoped();
    expect((await importRole("READER")).output).toMatchObject({ memberships: { updated: 2 } });
    expect(await countScoped(memberId)).toBe(0);
    expect((await importRole("READER")).output).toMatchObject({ memberships: { unchanged: 2 } });
  });
});
