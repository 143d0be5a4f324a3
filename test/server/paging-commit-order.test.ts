import { beforeAll, expect, test } from "vitest";
import type { Services } from "../../server/context.js";
import { formIdsInScope } from "../support/bulk.js";
import { asUser, makeForm, makeUser, openTestServices, setRole } from "../support/factories.js";
import { makeListingOwner } from "../support/listing-owner.js";
import { scale } from "../support/rounds.js";

const ROUNDS = scale(6);
const CREATES = 100;
const WRITERS = 10;
const GATEWAYS = 4;

/** Each has its own pool, so many creates are in flight at once. */
const gateways: Services[] = [];
/** A separate process, so that creates do not use up its connections. */
let readerServices: Services;
let readerId: string;
const writers: { userId: string; listingId: string }[] = [];

beforeAll(async () => {
  const env = { APP_SECRETS: "", DATABASE_POOL_SIZE: "12" };
  const first = await openTestServices(env);
  const DATABASE_URL = first.db.url;
  gateways.push(first);
  while (gateways.length < GATEWAYS) gateways.push(await openTestServices({ ...env, DATABASE_URL }));
  readerServices = await openTestServices({ APP_SECRETS: "", DATABASE_URL });
  readerId = (await makeUser(first)).id;
  for (let n = 0; n < WRITERS; n++) {
    const { userId, listingId } = await makeListingOwner(first);
    await setRole(first, listingId, readerId, "OWNER");
    writers.push({ userId, listingId });
  }
  // A deferred trigger runs at COMMIT, so forms commit in another order than that of their `created_at`.
  await first.db.pool.query(`
    CREATE TABLE commits (form_id uuid, at timestamptz);
    CREATE FUNCTION commit_late() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      PERFORM pg_sleep(random() * 0.1);
      INSERT INTO commits VALUES (NEW.id, clock_timestamp());
      RETURN NULL;
    END $$;
    CREATE CONSTRAINT TRIGGER commit_late AFTER INSERT ON forms DEFERRABLE INITIALLY DEFERRED
      FOR EACH ROW EXECUTE FUNCTION commit_late()`);
});

/** Reads the list page by page and keeps the last cursor. */
class Follower {
  /** Ids on the pages that had a nextCursor. */
  readonly ids: string[] = [];
  #cursor: string | undefined;
  readonly #limit: number;
  readonly #listingId: string | undefined;

  constructor(limit: number, listingId?: string) {
    this.#limit = limit;
    this.#listingId = listingId;
  }

  /** The ids that it should have read, by a simple query. */
  expectedIds = () => formIdsInScope(readerServices, readerId, this.#listingId);

  /** Reads on until the list ends once `isDone`; returns the ids of the whole list, earlier rounds included. */
  async follow(isDone: () => boolean): Promise<string[]> {
    const { forms } = asUser(readerServices, readerId);
    for (;;) {
      const isLast = isDone();
      const page = await forms.list({
        limit: this.#limit,
        ...(this.#listingId && { listingId: this.#listingId }),
        ...(this.#cursor && { cursor: this.#cursor }),
      });
      const ids = page.items.map(({ id }) => id);
      if (page.nextCursor !== null) {
        this.ids.push(...ids);
        this.#cursor = page.nextCursor;
      } else if (isLast) {
        // Not added to `ids`, because the next round reads this page again from the same cursor.
        return [...this.ids, ...ids];
      }
    }
  }
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
  const { rows } = await readerServices.db.pool.query<{ n: number }>(`
    SELECT count(*)::int AS n
    FROM (
      SELECT c.at, min(c.at) OVER (ORDER BY f.created_at, f.id ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS next
      FROM forms f JOIN commits c ON c.form_id = f.id
    ) listed
    WHERE next < at`);
  return rows[0]?.n ?? 0;
}

test("while forms are created in another order than they commit, a reader at the end of the list, filtered or not, skips none and gets none twice", {
  timeout: 120_000,
}, async () => {
  const [{ listingId } = { listingId: "" }] = writers;
  const followers = [new Follower(7), new Follower(1), new Follower(1, listingId)];
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
    expect(await formIdsInScope(readerServices, readerId)).toHaveLength(round * CREATES);
  }
  expect(await countCommittedOutOfOrder()).toBeGreaterThan((ROUNDS * CREATES) / 2);
});
