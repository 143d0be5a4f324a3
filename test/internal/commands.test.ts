import { beforeAll, describe, expect, test } from "vitest";
import { asOperator, asUser, makeForm, makeListing, makeUser, openTestServices } from "../factories.js";
import { createTestDatabase, freePort, runCli, spawnCli } from "../harness.js";
import { TOKEN } from "./inside.js";

const NOBODY = "00000000-0000-4000-8000-000000000000";

let env: Record<string, string>;
let userId: string;
let services: Awaited<ReturnType<typeof openTestServices>>;

beforeAll(async () => {
  const { url } = await createTestDatabase();
  env = { DATABASE_URL: url };
  services = await openTestServices({ ...env, APP_SECRETS: "" });
  userId = (await makeUser(services)).id;
});

async function json(...args: string[]) {
  const { stdout, stderr, code } = await runCli([...args, "--json"], { env });
  expect({ stderr, code }).toEqual({ stderr: "", code: 0 });
  return JSON.parse(stdout);
}

async function refused(...args: string[]) {
  const { stdout, stderr, code } = await runCli(args, { env });
  expect(stdout).toBe("");
  return [code, stderr];
}

describe("the operator's commands", { timeout: 360_000 }, () => {
  test("listings update changes what is given, listings deactivate ends new forms", async () => {
    const listing = await makeListing(services, userId, { district: "Mitte", maxVehicles: 2 });
    const { id } = listing;
    const changes = ["--title", "New", "--district", "", "--max-people", "3", "--max-vehicles", "none"];
    expect(await json("listings", "update", id, ...changes, "--allow-pets", "false")).toEqual({
      ...listing,
      title: "New",
      district: null,
      maxPeopleInListing: 3,
      maxVehicles: null,
      allowPets: false,
    });
    expect((await json("listings", "deactivate", id)).active).toBe(false);
    expect((await json("listings", "update", id, "--active", "true")).active).toBe(true);
    expect(await refused("listings", "update", id, "--max-people", "0")).toEqual([
      2,
      "error: --max-people: must be at least 1\n",
    ]);
    expect(await refused("listings", "deactivate", NOBODY)).toEqual([
      1,
      "error: There is no listing with this id.\n",
    ]);
  });

  test("forms set-party, set-status and trail", async () => {
    const { id: listingId } = await makeListing(services, userId, { maxVehicles: 2 });
    const form = await makeForm(services, userId, listingId);
    expect(await json("forms", "set-party", form.id, "--vehicles", "2", "--pets", "none")).toEqual({
      ...form,
      numberOfVehicles: 2,
    });
    expect(await refused("forms", "set-party", form.id, "--vehicles", "3")).toEqual([
      2,
      "error: --vehicles: must be at most 2 on this listing\n",
    ]);
    expect((await json("forms", "set-status", form.id, "CHECKED_OUT")).status).toBe("CHECKED_OUT");
    await asUser(services, userId).forms.get({ id: form.id });
    const trail = await json("forms", "trail", form.id);
    expect(trail).toEqual(await asOperator(services).audit.trail({ subjectId: form.id }));
    const { stdout } = await runCli(["forms", "trail", form.id], { env });
    expect(stdout).toMatch(/form\.status_set +operator .*"correction":true/);
  });

  test("serve says which of its two ports is taken, and never the token", async () => {
    const port = String(await freePort());
    const inner = { ...env, INTERNAL_TOKEN: TOKEN, INTERNAL_PORT: port, PORT: "0" };
    const first = spawnCli(["serve", "--json", "--no-worker"], { env: inner });
    await first.waitForLine(/^\{"url"/, 60_000);
    for (const more of [[], ["--workers", "2"]]) {
      const second = await runCli(["serve", "--no-worker", ...more], { env: inner });
      expect(second.code).toBe(1);
      expect(second.stderr).toContain(`port ${port} for internal tools (EADDRINUSE)`);
      expect(second.stderr).not.toContain(TOKEN);
    }
    await first.stop();
  });

  test("a token that is too short is refused without being shown", async () => {
    const short = { ...env, INTERNAL_TOKEN: "a-short-token" };
    const { stderr, code } = await runCli(["serve"], { env: short });
    expect([code, stderr]).toEqual([
      1,
      "error: INTERNAL_TOKEN is a value of 13 characters, but must be a secret of at least 32 characters, without spaces.\n",
    ]);
  });
});
