import { expect, test } from "vitest";
import type { Services } from "../../server/access/context.js";
import { formIdsInScope } from "../support/bulk.js";
import { openTestCore } from "../support/core.js";
import { asUser, makeForm, makeUser, setRole } from "../support/factories.js";
import { makeListingOwner } from "../support/listing-owner.js";
import { scale } from "../support/rounds.js";

const ROUNDS = scale(6);
const CREATES = 100;
const WRITERS = 10;
const GATEWAYS = 4;

const { services, sql, openProcess } = await openTestCore({ DATABASE_POOL_SIZE: "12" });
/** Each has its own pool, so many creates are in flight at once. */
const gateways: Services[] = [services];
while (gateways.length < GATEWAYS) gateways.push(await openProcess({ DATABASE_POOL_SIZE: "12" }));
/** A separate process, so that creates do not use up its connections. */
const reader = await openProcess();
const { id: readerId } = await makeUser(services);
const writers: { userId: string; listingId: string }[] = [];
for (let n = 0; n < WRITERS; n++) {
  const writer = await makeListingOwner(services);
  await setRole(services, writer.listingId, readerId, "OWNER");
  writers.push(writer);
}
// A deferred trigger runs at COMMIT, so forms commit in another order than that of their `created_at`.
await sql(`
  CREATE TABLE commits (form_id uuid, at timestamptz);
  CREATE FUNCTION commit_late() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    PERFORM pg_sleep(random() * 0.1);
    INSERT INTO commits VALUES (NEW.id, clock_timestamp());
    RETURN NULL;
  END $$;
  CREATE CONSTRAINT TRIGGER commit_late AFTER INSERT ON forms DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION commit_late()`);

// Opened before, because the first creates would else be in flight for as long as it takes to open all at once: on a slow
// machine longer than a page waits for them.
const connect = ({ db, settings }: Services) =>
  Array.from({ length: settings.DATABASE_POOL_SIZE }, () => db.query("connect", "SELECT pg_sleep(0.1)", []));
await Promise.all([...gateways, reader].flatMap(connect));

/** Reads the list page by page and keeps the last cursor. */
function startFollower(limit: number, listingId?: string) {
  const { forms } = asUser(reader, readerId);
  /** Ids on the pages that had a nextCursor. */
  const read: string[] = [];
  let cursor: string | undefined;
  return {
    /** The ids that it should have read, by a simple query. */
    expectedIds: () => formIdsInScope(reader, readerId, listingId),
    /** Reads on until the list ends once `isDone`; returns the ids of the whole list, earlier rounds included. */
    async follow(isDone: () => boolean): Promise<string[]> {
      for (;;) {
        const isLast = isDone();
        const page = await forms.list({ limit, ...(listingId && { listingId }), ...(cursor && { cursor }) });
        const ids = page.items.map(({ id }) => id);
        if (page.nextCursor !== null) {
          read.push(...ids);
          cursor = page.nextCursor;
        } else if (isLast) {
          // Not kept, because the next round reads this page again from the same cursor.
          return [...read, ...ids];
        }
      }
    },
  };
}

async function createAll(): Promise<void> {
  await Promise.all(
    Array.from({ length: CREATES }, async (_, n) => {
      const { userId, listingId } = writers[n % WRITERS] ?? { userId: "", listingId: "" };
      await makeForm(gateways[n % GATEWAYS] as Services, userId, listingId);
    }),
  );
}

/** Returns how many forms committed later than a form listed after them. */
async function countCommittedOutOfOrder(): Promise<number> {
  const [row] = await sql(`
    SELECT count(*)::int AS n
    FROM (
      SELECT c.at, min(c.at) OVER (ORDER BY f.created_at, f.id ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS next
      FROM forms f JOIN commits c ON c.form_id = f.id
    ) listed
    WHERE next < at`);
  return row.n;
}

test("while forms are created in another order than they commit, a reader at the end of the list, filtered or not, skips none and gets none twice", {
  timeout: 120_000,
}, async () => {
  const [{ listingId } = { listingId: "" }] = writers;
  const followers = [startFollower(7), startFollower(1), startFollower(1, listingId)];
  for (let round = 1; round <= ROUNDS; round++) {
    let isDone = false;
    const creating = createAll().finally(() => {
      isDone = true;
    });
    await Promise.all([
      creating,
      ...followers.map(async (follower) => {
        const ids = await follower.follow(() => isDone);
        expect(ids).toEqual(await follower.expectedIds());
      }),
    ]);
    expect(await formIdsInScope(reader, readerId)).toHaveLength(round * CREATES);
  }
  expect(await countCommittedOutOfOrder()).toBeGreaterThan((ROUNDS * CREATES) / 2);
});
