import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { encodeCursor } from "../../server/resources/paging.js";
import { formIdsInScope } from "../support/bulk.js";
import { asUser, makeListing, makeUser, openTestServices, setRole } from "../support/factories.js";
import { makeFixture, startGatewayProcess } from "../support/gateway-processes.js";
import { floodWhile } from "../support/noisy-tenants.js";
import { runCli } from "../support/processes.js";
import { makeTempFolder } from "../support/run-tool.js";
import { makeTenant } from "../support/tenants.js";

const FORMS = 200_000;
/** More than in isolation.fault.ts: Postgres works on the forms at the same time. */
const MAX_P99_MS = 500;

/** Too short to update the scope of so many forms, like the default of 1.8 s on a slower machine. */
const SHORT_TIMEOUTS = {
  DATABASE_CONNECT_TIMEOUT_MS: "2300",
  DATABASE_STATEMENT_TIMEOUT_MS: "500",
  DATABASE_LOCK_TIMEOUT_MS: "400",
};

/** With a long timeout, to fill the database. */
const filler = await openTestServices({ DATABASE_STATEMENT_TIMEOUT_MS: "120000" });
/** The core with short timeouts. */
const services = await openTestServices({ DATABASE_URL: filler.db.url, ...SHORT_TIMEOUTS });
const owner = await makeTenant(filler);
const { userId: ownerId, listingId } = owner;
/** A writer on the large listing, with another listing of their own. */
const neighbor = await makeTenant(filler);
await setRole(filler, listingId, neighbor.userId, "WRITER");
const { id: memberId } = await makeUser(filler);
await filler.db.pool.query(
  `INSERT INTO forms (public_id, listing_id, fingerprint, created_at)
   SELECT left(replace(gen_random_uuid()::text, '-', ''), 21), $1, '\\x00', now() - i / 2 * interval '1 s' FROM generate_series(1, $2::int) i`,
  [listingId, FORMS],
);
await filler.db.pool.query("ANALYZE forms");
const { env: gatewayEnv } = await makeFixture(filler.db.url, { DATABASE_POOL_SIZE: "10" });
/** A gateway, to which all requests go. */
const { url } = await startGatewayProcess(gatewayEnv);
/** Of commands. */
const env = { ...gatewayEnv, ...SHORT_TIMEOUTS };

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

/** Runs `work` while the owner floods the listing with creates; asserts that its neighbor is not delayed. */
const runUnderLoad = <Result>(work: () => Promise<Result>) =>
  floodWhile(url, filler, { noisy: owner, neighbor, work, maxMs: MAX_P99_MS });

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
  /** Runs a command while other requests must stay fast. */
  async function runCommandUnderLoad(...args: string[]): Promise<string> {
    const { code, stdout, stderr } = await runUnderLoad(() => runCli([...args, "--json"], { env }));
    expect({ code, stderr }).toMatchObject({ code: 0 });
    return JSON.parse(stdout);
  }

  test("the command `members set` gives access to all its forms without delaying other key holders", async () => {
    const args = ["--listing", listingId, "--user", memberId, "--role", "writer"];
    expect(await runCommandUnderLoad("members", "set", ...args)).toMatchObject({ role: "writer" });
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

  test("the command `members remove` revokes access to all of them without delaying other key holders", async () => {
    await runCommandUnderLoad("members", "remove", "--listing", listingId, "--user", memberId);
    expect(await countScoped(memberId)).toBe(0);
    const empty = { items: [], nextCursor: null };
    expect(await asUser(services, memberId).forms.list({})).toEqual(empty);
    expect(await countScoped(ownerId)).toBe(await countForms());
  });

  test("the import of a membership gives access to all of them without delaying other key holders, and so does its end", async () => {
    const path = join(await makeTempFolder("import"), "members.csv");
    const { id: otherId } = await makeListing(filler, ownerId);
    const importRole = async (role: string) => {
      const rows = [listingId, otherId].map((listing) => `membership,${listing},${memberId},${role}\n`);
      await writeFile(path, `type,listing,user,role\n${rows.join("")}`);
      return runCommandUnderLoad("import", path);
    };
    expect(await importRole("WRITER")).toMatchObject({ memberships: { created: 2 } });
    await expectAllScoped();
    expect(await importRole("READER")).toMatchObject({ memberships: { updated: 2 } });
    expect(await countScoped(memberId)).toBe(0);
    expect(await importRole("READER")).toMatchObject({ memberships: { unchanged: 2 } });
  });
});
