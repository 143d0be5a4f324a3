import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import { createTestDatabase } from "../support/database.js";
import { makeListing, makeUser } from "../support/factories.js";
import { spawnNode } from "../support/processes.js";
import { runInProcess } from "../support/run-in-process.js";
import { type Importer, makeRows, openImporter, toNdjson, unchanged } from "./importer.js";

const cli = join(packageRoot(), "dist/gateway/cli.js");
let importer: Importer;

beforeAll(async () => {
  importer = await openImporter();
});

describe("guest-forms export", () => {
  test("writes to standard output, from which an import reads with -", async () => {
    const { ana } = makeRows();
    await importer.importJson(importer.write("in.ndjson", toNdjson(ana)));
    const script = '"$0" "$1" export | head -1; "$0" "$1" export | "$0" "$1" import - --format csv --json';
    const { stdout, stderr } = await spawnNode([cli], {
      env: importer.env,
      commandPrefix: ["sh", "-c", script],
    }).done;
    expect(stderr).toBe("");
    const [header, summary = ""] = stdout.split("\n");
    expect(header).toMatch(/^type,externalId,email,name,title,/);
    expect(JSON.parse(summary)).toMatchObject({ users: { created: 0, updated: 0 } });
    const { code, message } = await runInProcess(["export", "--json"], importer.env);
    expect([code, message]).toEqual([2, "--json requires --output."]);
  });

  test.each(["csv", "ndjson"])(
    "writes a %s file that an import into the same database leaves unchanged, and another database becomes equal to",
    async (format) => {
      const { ana, ben, loft, owns, reads, id } = makeRows();
      const odd = { ...loft, externalId: `=${id}`, title: '=1+1 "ü", x', district: "-a", allowPets: false };
      await importer.importJson(importer.write("in.ndjson", toNdjson(ana, ben, loft, odd, owns, reads)));
      await makeListing(importer.services, (await makeUser(importer.services)).id);
      const output = join(importer.folder, `out.${format}`);
      const { stdout } = await runInProcess(["export", "--output", output, "--json"], importer.env);
      const { users, listings, memberships } = JSON.parse(stdout);
      expect(await importer.importJson(output)).toEqual({
        dryRun: false,
        users: unchanged(users),
        listings: unchanged(listings),
        memberships: unchanged(memberships),
      });

      const { url } = await createTestDatabase();
      const other = { ...importer.env, DATABASE_URL: url };
      expect((await runInProcess(["import", output], other)).code).toBe(0);
      const copy = join(importer.folder, `copy.${format}`);
      expect((await runInProcess(["export", "--output", copy], other)).code).toBe(0);
      const sorted = (path: string) => readFileSync(path, "utf8").split("\n").sort();
      expect(sorted(copy)).toEqual(sorted(output));
      expect(statSync(output).mode & 0o777).toBe(0o600);
    },
  );
});
