import { chmod } from "node:fs/promises";
import { beforeAll, describe, expect, test } from "vitest";
import { createTestDatabase } from "../support/database.js";
import { TEST_SECRET } from "../support/factories.js";
import { sendRequest } from "../support/http-client.js";
import { mailEnv, openMailServer, recipientsOf } from "../support/mail-server.js";
import { makeTempFolder } from "../support/run-tool.js";
import { fixedStay } from "../support/stays.js";
import { type BuiltImage, buildImage, canRunImages, readInstructions, spawnInImage } from "./built-image.js";

const instruction = (wanted: string): string[] =>
  JSON.parse(readInstructions().findLast(({ name }) => name === wanted)?.value ?? "[]");

describe.skipIf(!process.env.CI && !canRunImages)("the image, built by the steps of the Dockerfile,", () => {
  let image: BuiltImage;

  beforeAll(async () => {
    const folder = await makeTempFolder("image");
    // The image runs as another user.
    await chmod(folder, 0o755);
    image = await buildImage(folder);
  });

  const runNode = (args: string[], env = {}) => spawnInImage(image, args, env);

  test("has the release, and neither packages nor sources nor development tools", async () => {
    const files = (await runNode(["-p", "fs.readdirSync('.').join()"]).done).stdout;
    expect(files.trim().split(",")).toEqual(
      expect.arrayContaining([".env.example", "deploy", "dist", "gateway", "prisma", "sbom.cdx.json"]),
    );
    expect(files).not.toMatch(/\b(node_modules|server|test|tsconfig)/);
  });

  test("as a user without rights, on a file system without any writable folder, it migrates, creates forms, sends email and stops gracefully", async () => {
    const [program, ...entrypoint] = instruction("ENTRYPOINT");
    expect(program).toBe("node");
    const mailServer = await openMailServer();
    const { url } = await createTestDatabase({ empty: true });
    const env = { DATABASE_URL: url, APP_SECRETS: TEST_SECRET, PORT: "0", ...mailEnv(mailServer.url) };
    const start = (args: string[]) => runNode([...entrypoint, ...args], env);
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
  });
});
