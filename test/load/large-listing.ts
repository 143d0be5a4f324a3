import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "vitest";
import { makeListing, makeUser, openTestServices, setRole } from "../support/factories.js";
import { makeFixture, startGatewayProcess } from "../support/gateway-processes.js";
import { floodWhile } from "../support/noisy-tenants.js";
import { runCli } from "../support/processes.js";
import { makeTempFolder } from "../support/run-tool.js";
import { makeTenant, type Seen } from "../support/tenants.js";

export const FORMS = 200_000;

/** Too short to update the scope of so many forms, like the default of 1.8 s on a slower machine. */
const SHORT_TIMEOUTS = {
  DATABASE_CONNECT_TIMEOUT_MS: "2300",
  DATABASE_STATEMENT_TIMEOUT_MS: "500",
  DATABASE_LOCK_TIMEOUT_MS: "400",
};

/** Makes a listing of 200,000 forms, and starts a gateway to which its owner and a neighbor of theirs send requests. */
export async function makeLargeListing() {
  /** With a long timeout, to fill the database. */
  const filler = await openTestServices({ DATABASE_STATEMENT_TIMEOUT_MS: "120000" });
  /** The core with short timeouts. */
  const services = await openTestServices({ DATABASE_URL: filler.db.url, ...SHORT_TIMEOUTS });
  const owner = await makeTenant(filler);
  const { userId: ownerId, listingId } = owner;
  const { id: otherListingId } = await makeListing(filler, ownerId);
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
  const { env } = await makeFixture(filler.db.url, { DATABASE_POOL_SIZE: "10" });
  const { url } = await startGatewayProcess(env);

  /** Runs a command with short timeouts while the owner floods the listing with creates, and the neighbor sends requests. */
  async function runUnderLoad(...args: string[]): Promise<{ output: unknown; seen: Seen }> {
    const run = () => runCli([...args, "--json"], { env: { ...env, ...SHORT_TIMEOUTS } });
    const { result, seen } = await floodWhile(url, filler, { noisy: owner, neighbor, work: run });
    expect({ code: result.code, stderr: result.stderr }).toMatchObject({ code: 0 });
    return { output: JSON.parse(result.stdout), seen };
  }

  const member = ["--listing", listingId, "--user", memberId];

  return {
    filler,
    services,
    ownerId,
    listingId,
    memberId,
    setMember: () => runUnderLoad("members", "set", ...member, "--role", "writer"),
    removeMember: () => runUnderLoad("members", "remove", ...member),
    /** Imports the membership, and one of another listing. */
    async importRole(role: string) {
      const path = join(await makeTempFolder("import"), "members.csv");
      const rows = [listingId, otherListingId].map((listing) => `membership,${listing},${memberId},${role}\n`);
      await writeFile(path, `type,listing,user,role\n${rows.join("")}`);
      return runUnderLoad("import", path);
    },
  };
}
