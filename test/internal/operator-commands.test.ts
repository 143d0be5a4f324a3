import { beforeAll, describe, expect, test } from "vitest";
import { asOperator, asUser, makeForm, makeListing, makeUser, openTestServices } from "../factories.js";
import { createTestDatabase, freePort, runCli, spawnCli } from "../harness.js";
import { TOKEN } from "./internal-gateway.js";

const UNKNOWN_ID = "00000000-0000-4000-8000-000000000000";

let env: Record<string, string>;
let userId: string;
let services: Awaited<ReturnType<typeof openTestServices>>;

beforeAll(async () => {
  const { url } = await createTestDatabase();
  env = { DATABASE_URL: url };
  services = await openTestServices({ ...env, APP_SECRETS: "" });
  userId = (await makeUser(services)).id;
});

async function runJson(...args: string[]) {
  const { stdout, stderr, code } = await runCli([...args, "--json"], { env });
  expect({ stderr, code }).toEqual({ stderr: "", code: 0 });
  return JSON.parse(stdout);
}

async function runFailing(...args: string[]) {
  const { stdout, stderr, code } = await runCli(args, { env });
  expect(stdout).toBe("");
  return [code, stderr];
}

describe("operator commands", { timeout: 360_000 }, () => {
  test("listings update changes only the given fields, and listings deactivate makes a listing inactive", async () => {
    const listing = await makeListing(services, userId, { district: "Mitte", maxVehicles: 2 });
    const { id } = listing;
    const changes = ["--title", "New", "--district", "", "--max-people", "3", "--max-vehicles", "none"];
    expect(await runJson("listings", "update", id, ...changes, "--allow-pets", "false")).toEqual({
      ...listing,
      title: "New",
      district: null,
      maxPeopleInListing: 3,
      maxVehicles: null,
      allowPets: false,
    });
    expect((await runJson("listings", "deactivate", id)).active).toBe(false);
    expect((await runJson("listings", "update", id, "--active", "true")).active).toBe(true);
    expect(await runFailing("listings", "update", id, "--max-people", "0")).toEqual([
      2,
      "error: --max-people: must be at least 1\n",
    ]);
    expect(await runFailing("listings", "deactivate", UNKNOWN_ID)).toEqual([
      1,
      "error: There is no listing with this id.\n",
    ]);
  });

  test("forms set-party and set-status change a form, and forms trail prints both changes", async () => {
    const { id: listingId } = await makeListing(services, userId, { maxVehicles: 2 });
    const form = await makeForm(services, userId, listingId);
    expect(await runJson("forms", "set-party", form.id, "--vehicles", "2", "--pets", "none")).toEqual({
      ...form,
      numberOfVehicles: 2,
    });
    expect(await runFailing("forms", "set-party", form.id, "--vehicles", "3")).toEqual([
      2,
      "error: --vehicles: must be at most 2 on this listing\n",
    ]);
    expect((await runJson("forms", "set-status", form.id, "CHECKED_OUT")).status).toBe("CHECKED_OUT");
    await asUser(services, userId).forms.get({ id: form.id });
    const trail = await runJson("forms", "trail", form.id);
    expect(trail).toEqual(await asOperator(services).audit.trail({ subjectId: form.id }));
    const { stdout } = await runCli(["forms", "trail", form.id], { env });
    expect(stdout).toMatch(/form\.status_set +operator .*"correction":true/);
  });

  test("serve reports the internal port that is in use, and never the token", async () => {
    const port = String(await freePort());
    const internalEnv = { ...env, INTERNAL_TOKEN: TOKEN, INTERNAL_PORT: port, PORT: "0" };
    const first = spawnCli(["serve", "--json", "--no-worker"], { env: internalEnv });
    await first.waitForLine(/^\{"url"/, 60_000);
    for (const more of [[], ["--workers", "2"]]) {
      const second = await runCli(["serve", "--no-worker", ...more], { env: internalEnv });
      expect(second.code).toBe(1);
      expect(second.stderr).toContain(`port ${port} for internal tools (EADDRINUSE)`);
      expect(second.stderr).not.toContain(TOKEN);
    }
    await first.stop();
  });

  test("an INTERNAL_TOKEN that is too short is rejected and not shown", async () => {
    const shortToken = { ...env, INTERNAL_TOKEN: "a-short-token" };
    const { stderr, code } = await runCli(["serve"], { env: shortToken });
    expect([code, stderr]).toEqual([
      1,
      "error: INTERNAL_TOKEN is a value of 13 characters, but must be a secret of at least 32 characters, without spaces.\n",
    ]);
  });
});
