import { existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { hashKey } from "../../server/keys/authenticator.js";
import { asOperator } from "../support/factories.js";
import { runCli } from "../support/processes.js";
import { commandsWith, runInProcess } from "../support/run-in-process.js";
import { makeRows, openImporter } from "./importer.js";

const { env, folder, services, write, importRows } = await openImporter();
const { json, failure } = commandsWith(env);
const { keys } = asOperator(services);

let files = 0;
const newOutput = () => join(folder, `keys-${++files}.csv`);

const issueAll = (file: string, output: string, ...args: string[]) =>
  json("keys", "issue-all", file, "--mode", "read-write", "--output", output, ...args);

const readKeys = (path: string) => {
  const [header, ...lines] = readFileSync(path, "utf8").trimEnd().split("\n");
  expect(header).toBe("externalId,email,keyId,key");
  return lines.map((line) => {
    const [externalId, email, keyId = "", key = ""] = line.split(",");
    return { externalId, email, keyId, key };
  });
};

test("each user of an import file gets a key, once: in a new file that only its owner can read, and nowhere else", async () => {
  const { ana, ben, loft, owns } = makeRows();
  const rows = [owns, loft, ana, ben, ben];
  await importRows(owns, loft, ana, ben);
  const [file, output] = [write("hosts.ndjson", rows), newOutput()];
  const { stdout } = await runInProcess(
    ["keys", "issue-all", file, "--mode", "read-write", "--label", "PMS", "--output", output],
    env,
  );
  expect(stdout).toBe(`Keys written to ${output}: 2. Users who had one already: 0.\n`);
  expect(statSync(output).mode & 0o777).toBe(0o600);
  const issued = readKeys(output);
  expect(issued.map(({ externalId, email }) => ({ externalId, email }))).toEqual(
    [ana, ben].map(({ externalId, email }) => ({ externalId, email })),
  );
  for (const { keyId, key } of issued) {
    const stored = await services.db.prisma.apiKey.findUniqueOrThrow({ where: { id: keyId } });
    expect(stored).toMatchObject({ mode: "READ_WRITE", label: "PMS", expiresAt: null });
    expect(Buffer.from(stored.hash)).toEqual(hashKey(key));
  }

  const again = newOutput();
  expect(await issueAll(file, again, "--label", " PMS ")).toEqual({ issued: 0, skipped: 2 });
  expect(readKeys(again)).toEqual([]);
  await keys.revoke({ id: issued[0]?.keyId ?? "" });
  const third = newOutput();
  expect(await issueAll(file, third, "--label", "PMS")).toEqual({ issued: 1, skipped: 1 });
  expect(readKeys(third)).toMatchObject([{ externalId: ana.externalId }]);
  expect(await issueAll(file, newOutput())).toEqual({ issued: 2, skipped: 0 });
});

test("the file that import --output writes names users too", async () => {
  const { ana, loft } = makeRows();
  const ids = join(folder, "ids.csv");
  await json("import", write("hosts.ndjson", [ana, loft]), "--output", ids);
  expect(await issueAll(ids, newOutput())).toEqual({ issued: 1, skipped: 0 });
});

test("a row names its user as an import does: with spaces around the external id, or by the id in capitals", async () => {
  const { ana, ben } = makeRows();
  const { id } = await asOperator(services).users.create({ email: ben.email });
  await importRows(ana);
  const rows = [
    { ...ana, externalId: ` ${ana.externalId} ` },
    { ...ben, externalId: id.toUpperCase() },
  ];
  expect(await issueAll(write("spaces.ndjson", rows), newOutput())).toEqual({ issued: 2, skipped: 0 });
});

test("an external id that is another user's address is an error with its line, which names both", async () => {
  const { ana, ben } = makeRows();
  await importRows(ana, { ...ben, externalId: ana.email });
  const file = write("ambiguous.ndjson", [{ ...ben, externalId: ana.email }]);
  const args = ["keys", "issue-all", file, "--mode", "read-only", "--output", newOutput()];
  expect(await runInProcess(args, env)).toMatchObject({
    code: 1,
    message: expect.stringMatching(/^line 1: externalId: two users have .*\nNo keys were issued\.$/),
  });
});

test("if the disk is full, the key that is not written is revoked, and a run with another file issues it again", async () => {
  const rows = Array.from({ length: 20 }, () => makeRows().ana);
  await importRows(...rows);
  const [file, output] = [write("many.ndjson", rows), newOutput()];
  const args = ["keys", "issue-all", file, "--mode", "read-only", "--label", "full", "--output", output];
  // Files of at most one block of 1 kB.
  const commandPrefix = ["bash", "-c", 'ulimit -f 1; exec "$@"', "bash"];
  const { code, stderr } = await runCli(args, { env, commandPrefix });
  expect({ code, stderr }).toMatchObject({ code: 1, stderr: expect.stringMatching(/EFBIG/) });
  const written = readKeys(output).filter(({ key }) => /^grf_ro_\w{49}$/.test(key));
  expect(written.length).toBeGreaterThan(2);
  const labelled = await services.db.prisma.apiKey.findMany({ where: { label: "full" } });
  const revoked = labelled.filter(({ revokedAt }) => revokedAt !== null);
  expect(revoked).toHaveLength(1);
  expect(labelled).toHaveLength(written.length + 1);
  const again = ["keys", "issue-all", file, "--mode", "read-only", "--label", "full", "--output", newOutput()];
  expect(await json(...again)).toEqual({ issued: 20 - written.length, skipped: written.length });
});

test("if a row names no user, or the file cannot be written, no key is issued, and an existing file stays as it is", async () => {
  const { ana, ben } = makeRows();
  await importRows(ana);
  const countKeys = () => services.db.prisma.apiKey.count();
  const before = await countKeys();
  const [file, output] = [write("hosts.ndjson", [ana, ben]), newOutput()];
  const args = (path: string, to: string) => ["keys", "issue-all", path, "--mode", "read-only", "--output", to];
  const { code, message } = await runInProcess(args(file, output), env);
  const lines = [
    "line 2: externalId: no user has this external id or id: import the file first",
    "No keys were issued.",
  ];
  expect({ code, message }).toEqual({ code: 1, message: lines.join("\n") });
  expect(existsSync(output)).toBe(false);

  const known = write("known.ndjson", [ana]);
  const existing = write("existing.csv", "precious");
  expect(await failure(...args(known, existing))).toEqual([
    1,
    `Cannot write ${existing}: it exists already. Choose another --output.`,
  ]);
  expect(readFileSync(existing, "utf8")).toBe("precious");
  expect(await failure(...args(known, join(folder, "none", "keys.csv")))).toEqual([
    1,
    `Cannot write ${join(folder, "none", "keys.csv")}: there is no such folder. Choose another --output.`,
  ]);
  const empty = write("empty.ndjson", []);
  expect(await runInProcess(args(empty, newOutput()), env)).toMatchObject({
    code: 1,
    message: "line 1: type: the file has no row of type user\nNo keys were issued.",
  });
  const past = newOutput();
  const expired = [...args(known, past), "--expires-at", "2020-01-01T00:00:00Z"];
  expect(await failure(...expired)).toEqual([2, "--expires-at: must be in the future"]);
  expect(existsSync(past)).toBe(false);
  expect(await countKeys()).toBe(before);
});
