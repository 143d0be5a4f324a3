import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import { createTestDatabase } from "../support/database.js";
import { TEST_SECRET } from "../support/factories.js";
import { sendRequest } from "../support/http-client.js";
import { mailEnv, openMailServer, recipientsOf } from "../support/mail-server.js";
import { fixedStay } from "../support/stays.js";
import { engines, type RunNode } from "./container-engine.js";
import { readInstructions } from "./dockerfile.js";

const WRITE_FILES = `
  const { writeFileSync } = require("node:fs");
  for (const folder of ["/", "/opt/guest-forms", "/opt/guest-forms/node_modules", "/etc", "/usr", "/run", "/dev", "/opt", "/var/tmp", "/tmp"]) {
    try { writeFileSync(folder + "/probe", ""); console.log(folder, "ok"); }
    catch ({ code }) { console.log(folder, code); }
  }
  console.log(process.getuid(), /CapEff:\\s+(\\w+)/.exec(require("node:fs").readFileSync("/proc/self/status", "utf8"))[1]);`;

const instruction = (wanted: string): string[] =>
  JSON.parse(readInstructions().findLast(({ name }) => name === wanted)?.value ?? "[]");

test.runIf(process.env.CI)("CI can build the image, if need be without a container engine", () => {
  expect(engines).not.toEqual([]);
});

describe.each(engines)("the image, $name,", ({ build }) => {
  let runNode: RunNode;

  beforeAll(async () => {
    runNode = await build();
  });

  test("has only the locked production dependencies, and neither sources nor development tools", async () => {
    const lockfile = await runNode(["-p", "fs.readFileSync('node_modules/.package-lock.json', 'utf8')"]).done;
    const installed = Object.keys(JSON.parse(lockfile.stdout).packages);
    const locked = JSON.parse(await readFile(join(packageRoot(), "package-lock.json"), "utf8")).packages;
    expect(installed.length).toBeGreaterThan(100);
    expect(installed.filter((path) => !locked[path] || locked[path].dev)).toEqual([]);
    const files = (await runNode(["-p", "fs.readdirSync('.').join()"]).done).stdout;
    expect(files.trim().split(",")).toEqual(
      expect.arrayContaining([".env.example", "deploy", "dist", "gateway", "node_modules", "prisma"]),
    );
    expect(files).not.toMatch(/\b(server|test|tsconfig)/);
  });

  test("runs as a user without rights, who can write only to the temporary folder", async () => {
    const { stdout } = await runNode(["-e", WRITE_FILES]).done;
    const lines = stdout.trim().split("\n");
    expect(lines.slice(0, -2).filter((line) => !/ (EROFS|EACCES)$/.test(line))).toEqual([]);
    expect(lines.slice(0, 2)).toEqual(["/ EROFS", "/opt/guest-forms EROFS"]);
    expect(lines.slice(-2)).toEqual(["/tmp ok", "1000 0000000000000000"]);
  });

  test.each([
    ["with a writable temporary folder", true],
    ["without any writable folder", false],
  ])(
    "on a read-only file system %s it migrates, creates forms, sends email and stops gracefully",
    async (_, hasTmp) => {
      const [program, ...entrypoint] = instruction("ENTRYPOINT");
      expect(program).toBe("node");
      const mailServer = await openMailServer();
      const { url } = await createTestDatabase({ empty: true });
      const env = { DATABASE_URL: url, APP_SECRETS: TEST_SECRET, PORT: "0", ...mailEnv(mailServer.url) };
      const start = (args: string[]) => runNode([...entrypoint, ...args], { env, hasTmp });
      async function runJson<Result>(line: string): Promise<Result> {
        const { stdout, stderr, code } = await start([...line.split(" "), "--json"]).done;
        expect(code, stderr).toBe(0);
        return JSON.parse(stdout);
      }
      await runJson("migrate");
      await runJson("users create --email host@example.com");
      const { id } = await runJson<{ id: string }>(
        "listings create --owner host@example.com --title Loft --address A --city B --country C --zip-code 1 --timezone UTC",
      );
      const { key } = await runJson<{ key: string }>("keys issue --user host@example.com --mode read-write");
      const service = start(instruction("CMD"));
      const [, port] = await service.waitForLine(/"url":"http:[^"]+:(\d+)"/);
      const body = fixedStay(id, { guestEmail: "guest@example.com" });
      const created = await sendRequest(`http://127.0.0.1:${port}/v1/forms`, key, { method: "POST", body });
      expect(created.status).toBe(201);
      await expect.poll(() => recipientsOf(mailServer)).toEqual(["guest@example.com"]);
      const { code, stderr } = await service.stop();
      expect(code).toBe(0);
      expect(stderr).not.toMatch(/EROFS|EACCES|"level":"(error|fatal)"/);
    },
  );
});
