import { readdir, readFile, stat, writeFile } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { dirname, join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { afterFile } from "../support/after-file.js";
import { createTestDatabase } from "../support/database.js";
import { sendRequest } from "../support/http-client.js";
import { type MailServer, recipientsOf, startMailServer } from "../support/mail-server.js";
import { operatingBlock, operatingInline, runFromPage, runScript } from "../support/operating-page.js";
import { runSql } from "../support/run-sql.js";
import { makeTempFolder } from "../support/run-tool.js";
import { fixedStay } from "../support/stays.js";
import { makeCleanClone } from "./clean-clone.js";
import { OperatorMachine } from "./operator-machine.js";

const DATABASE_URL = "postgres://user:password@host:5432/guest_forms";
const SMTP_URL = "smtps://user:password@mail.example.com";

// The tests are one operator's session, in the order of the page.
describe("an operator who follows operating.md on an empty machine", () => {
  let machine: OperatorMachine;
  let mailServer: MailServer;
  let url: string;
  let listingId: string;
  let key: string;
  let keyId: string;

  beforeAll(async () => {
    machine = await OperatorMachine.create();
    const server = await startMailServer();
    afterFile(() => server.close());
    mailServer = server;
    const database = await createTestDatabase({ empty: true });
    Object.assign(machine.replace, { [DATABASE_URL]: database.url, [SMTP_URL]: server.url });
    await machine.runBlock("tar -xzf");
  });

  const readValue = (output: string, name: string) =>
    new RegExp(`^${name}: +(\\S+)$`, "m").exec(output)?.[1] ?? "";
  const statusOf = async (sentKey: string) => (await sendRequest(`${url}/v1/listings`, sentKey)).status;

  test("creates the secret once, readable only by root", async () => {
    await machine.runBlock("openssl rand");
    const file = join(machine.folder, "etc/guest-forms.secret");
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    const secret = await readFile(file, "utf8");
    await expect(machine.runBlock("openssl rand")).rejects.toThrow(/exist/);
    expect(await readFile(file, "utf8")).toBe(secret);
    await machine.exportBlock("export DATABASE_URL");
    expect(machine.env.APP_SECRETS).toBe(secret.trim());
  });

  test("migrates and starts the service", async () => {
    machine.env.PORT = "0";
    const service = machine.start(operatingBlock("guest-forms serve"), "guest-forms serve");
    const [, address = ""] = await service.waitForLine(/"url":"(http:[^"]+)"/);
    url = address;
    expect((await fetch(`${url}/readyz`)).status).toBe(200);
  });

  test("adds a user, a listing and a key, with which a form is created and emailed", async () => {
    const output = await machine.runBlock("guest-forms users create");
    const ids = [...output.matchAll(/^id: +(\S+)$/gm)].map(([, id = ""]) => id);
    [, listingId = "", keyId = ""] = ids;
    key = readValue(output, "key");
    const body = fixedStay(listingId, { guestEmail: "guest@example.com" });
    const created = await sendRequest(`${url}/v1/forms`, key, { method: "POST", body });
    expect(created.status).toBe(201);
    await expect.poll(() => recipientsOf(mailServer)).toEqual(["guest@example.com"]);
    const correlationId = String(created.headers["x-correlation-id"]);
    const trace = await machine.runInline("guest-forms trace ID", { ID: correlationId });
    expect(trace).toContain("form.created");
    expect(trace).toContain((created.json as { id: string }).id);
  });

  test("gives another user a role", async () => {
    const member = { LISTING: listingId, USER: "host@example.com" };
    const output = await machine.runInline("guest-forms members set", member);
    expect(output).toMatch(/^role: +writer$/m);
  });

  test("checks the installation and the number of connections, and finds the help", async () => {
    expect(await machine.runInline("guest-forms doctor")).toMatch(/database/i);
    expect(await machine.runInline("guest-forms doctor --processes 3")).toMatch(/connections/i);
    expect(await machine.runInline("guest-forms serve --help")).toContain("DATABASE_POOL_SIZE");
    const commands = ["people reapply", "keys rotate", "migrate"];
    for (const command of commands) {
      expect(await machine.runInline("guest-forms COMMAND --help", { COMMAND: command })).toContain("Usage:");
    }
  });

  test("rotates a key: both work for the grace period, and a revoked one is rejected within a second", async () => {
    machine.replace["rotate ID"] = `rotate ${keyId}`;
    const rotated = readValue(await machine.runBlock("guest-forms keys rotate"), "key");
    expect([await statusOf(key), await statusOf(rotated)]).toEqual([200, 200]);
    await machine.runInline("guest-forms keys revoke ID", { ID: keyId });
    await expect.poll(() => statusOf(key), { timeout: 1_000 }).toBe(401);
    expect(await statusOf(rotated)).toBe(200);
  });

  test("renews what older secrets encrypted, as at the end of a rotation", async () => {
    expect(await machine.runBlock("guest-forms secrets reencrypt")).toMatch(/address/i);
  });

  test("imports a file, after a check, and exports it", async () => {
    await writeFile(join(machine.folder, "hosts.csv"), operatingBlock("type,externalId"));
    expect(await machine.runInline("guest-forms import hosts.csv --dry-run")).toContain("dry run");
    expect(await machine.runInline("guest-forms import hosts.csv")).toMatch(/^memberships +1 +0 +0$/m);
    expect(await machine.runInline("guest-forms export --output hosts.csv")).toContain("Wrote 2 users");
    expect(await machine.runInline("guest-forms import hosts.csv")).toMatch(/^memberships +0 +0 +2$/m);
  });

  test("looks at the migration of a new version, and runs it while the old version serves", async () => {
    const locks = "-- Locks: forms ACCESS EXCLUSIVE";
    const sql = 'ALTER TABLE "forms" ADD COLUMN "note" TEXT';
    const name = "20990101000000_note";
    await machine.addVersion("0.2.0", { name, sql: `${locks}\n${sql};\n` });
    const output = await machine.runBlock("migrate --dry-run");
    expect(output).toBe(`-- Migration ${name}\n\n${locks}\n${sql};\nApplied ${name}.\n`);
    const added = "SELECT count(*)::int AS n FROM information_schema.columns WHERE column_name = 'note'";
    expect(await runSql(machine.env.DATABASE_URL ?? "", added)).toEqual([{ n: 1 }]);
    expect((await fetch(`${url}/readyz`)).status).toBe(200);
  });

  test("runs one process per core", async () => {
    const command = operatingInline("guest-forms serve --workers auto");
    const service = machine.start(command, command);
    await service.waitForLine(/"url":"(http:[^"]+)"/);
    const listening = () => service.stderr.split('"msg":"listening"').length - 1;
    await expect.poll(listening).toBe(availableParallelism());
    expect((await service.stop()).code).toBe(0);
  });

  test("builds the release in a clean checkout", { timeout: 600_000 }, async () => {
    const folder = await makeTempFolder("checkout");
    await makeCleanClone(folder);
    const { HOME = "" } = process.env;
    await runFromPage(operatingBlock("npm run release"), (script) =>
      runScript(script, { cwd: folder, env: { HOME }, binFolders: [dirname(process.execPath)] }),
    );
    expect(await readdir(folder)).toContain("guest-forms-0.1.0.tgz");
  });

  test("lists the erasures", async () => {
    expect(await machine.runInline("guest-forms people erasures")).toBe("\n");
  });

  test("copies the unit and its settings", async () => {
    await machine.runBlock("guest-forms.service /etc/systemd/system");
    const path = (name: string) => join(machine.folder, "etc", name);
    expect((await stat(path("guest-forms.env"))).mode & 0o777).toBe(0o600);
    expect(await readFile(path("systemd/system/guest-forms.service"), "utf8")).toContain("ExecStart=");
  });
});
