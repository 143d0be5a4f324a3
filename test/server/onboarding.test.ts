import { describe, expect, test } from "vitest";
import { formIdsInScope, insertListingsWithForms, listingIdsInScope } from "../support/bulk.js";
import { openTestCore } from "../support/core.js";
import { asOperator, catchRejectedFields } from "../support/factories.js";

const { services, operator, sql, runBehind, openProcess, makeUser, asUser } = await openTestCore();
const { onboarding } = operator;
const other = asOperator(await openProcess());

const place = { address: "a", city: "c", country: "c", zipCode: "z", timezone: "UTC" };

let serial = 0;

/** Rows of users and of listings that no other test names. */
function makeRows(count: number) {
  const id = `s${++serial}`;
  const numbers = Array.from({ length: count }, (_, index) => index);
  return {
    users: numbers.map((n) => ({ type: "user" as const, externalId: `${id}-${n}`, email: `${id}.${n}@example.com` })),
    listings: numbers.map((n) => ({ type: "listing" as const, externalId: `${id}-${n}`, title: "t", ...place })),
    memberships: numbers.map((n) => ({
      type: "membership" as const,
      listing: `${id}-${n}`,
      user: `${id}-${n}`,
      role: "OWNER" as const,
    })),
  };
}

const none = { created: 0, updated: 0, unchanged: 0 };

describe("onboarding.write", () => {
  test("concurrent writes of the same rows all succeed, return the same ids, and create and audit each row once", async () => {
    for (let round = 0; round < 5; round++) {
      const { users, listings, memberships } = makeRows(50);
      for (const rows of [users, listings, memberships]) {
        const reversed = [...rows].reverse();
        const results = await Promise.all([
          onboarding.write({ rows }),
          other.onboarding.write({ rows: reversed }),
          onboarding.write({ rows }),
        ]);
        const total = (outcome: "created" | "unchanged") => results.reduce((sum, counts) => sum + counts[outcome], 0);
        expect([total("created"), total("unchanged")]).toEqual([50, 100]);
        const [first, second, third] = results.map(({ ids }) => ids);
        expect([second?.toReversed(), third]).toEqual([first, first]);
      }
    }
    const repeated = "SELECT FROM audit_entries GROUP BY subject_id, action, details HAVING count(*) > 1";
    expect(await sql(repeated)).toEqual([]);
  });

  test("a batch with an invalid row writes nothing and names the row", async () => {
    const { users, memberships } = makeRows(3);
    const { email } = await makeUser();
    const taken = { type: "user" as const, email };
    await onboarding.write({ rows: [{ ...taken, externalId: "taken" }] });
    const rejected = onboarding.write({ rows: [...users, { ...taken, externalId: "other" }] });
    expect(await catchRejectedFields(rejected)).toEqual(["rows.3.email"]);
    const check = await onboarding.check({ lines: [{ line: 1, value: users[0] }] });
    expect(check.counts.users).toEqual({ ...none, created: 1 });
    const unknown = onboarding.write({ rows: memberships.slice(0, 1) });
    expect(await catchRejectedFields(unknown)).toEqual(["rows.0.listing", "rows.0.user"]);
    const mixed = onboarding.write({ rows: [...users, ...memberships] });
    expect(await catchRejectedFields(mixed)).toEqual(["rows"]);
  });

  test("an update sets only the fields that differ, so it keeps a concurrent change of another field", async () => {
    const { users, listings, memberships } = makeRows(1);
    for (const rows of [users, listings, memberships]) await onboarding.write({ rows });
    const user = await operator.users.find({ user: users[0]?.email ?? "" });
    const [id = ""] = await listingIdsInScope(services, user.id);
    const rows = listings.map((listing) => ({ ...listing, title: "New" }));
    const move = "UPDATE listings SET city = 'Ulm' WHERE id = $1";
    const written = await runBehind([move, id], () => onboarding.write({ rows }));
    expect(written).toEqual({ ...none, updated: 1, ids: [id] });
    expect(await operator.listings.getAny({ id })).toMatchObject({ city: "Ulm", title: "New" });
  });

  test("memberships of listings with few and with many forms put exactly these forms in scope", async () => {
    const owner = await makeUser();
    const member = await makeUser();
    for (const [listings, formsPerListing] of [
      [3, 20],
      [2, 150],
    ] as const) {
      await insertListingsWithForms(services, owner.id, { listings, formsPerListing, distinctTimes: 50 });
    }
    const ids = await listingIdsInScope(services, owner.id);
    const setAll = (role: "WRITER" | "READER") => {
      const row = { type: "membership", user: member.email, role } as const;
      return onboarding.write({ rows: ids.map((listing) => ({ ...row, listing })) });
    };
    expect(await setAll("WRITER")).toMatchObject({ ...none, created: 5 });
    const scoped = await sql(
      "SELECT form_id AS id FROM scoped_forms WHERE user_id = $1 ORDER BY created_at, form_id",
      member.id,
    );
    expect(scoped).toHaveLength(360);
    expect(scoped.map(({ id }) => id)).toEqual(await formIdsInScope(services, member.id));
    expect(await setAll("READER")).toMatchObject({ ...none, updated: 5 });
    expect((await asUser(member.id).forms.list({})).items).toEqual([]);
    for (const listing of ids) {
      const trail = await operator.audit.trail({ subjectId: listing });
      expect(trail.map(({ details }) => details)).toEqual([
        { userId: member.id, role: "READER" },
        { userId: member.id, role: "WRITER" },
      ]);
    }
  });
});
