import { mkdir, readFile, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import { makeListing, makeUser, openTestServices, TEST_SECRET } from "../support/factories.js";
import { spawnNode } from "../support/processes.js";
import { makeTempFolder } from "../support/run-tool.js";

test("the sample in internal-tools.md creates a form as a user, in a program that depends on the package", async () => {
  const services = await openTestServices();
  const env = { DATABASE_URL: services.db.url, APP_SECRETS: TEST_SECRET };
  const folder = await makeTempFolder("in-process");
  await mkdir(join(folder, "node_modules"));
  await symlink(packageRoot(), join(folder, "node_modules/guest-forms"));
  const { id: userId } = await makeUser(services);
  const { id: listingId } = await makeListing(services, userId);
  const page = await readFile(join(packageRoot(), "gateway/docs/internal-tools.md"), "utf8");
  const [, sample = ""] = /```ts\n(import \{ createCaller[\s\S]*?)```/.exec(page) ?? [];
  expect(sample).toContain("openServices");
  const dates = 'const checkInDate = "2027-07-01T15:00:00Z", checkOutDate = "2027-07-08T11:00:00Z";';
  const ids = `const userId = "${userId}", listingId = "${listingId}";`;
  const program = join(folder, "program.mjs");
  await writeFile(program, [dates, ids, sample, "console.log(JSON.stringify(form));"].join("\n"));
  const { stdout, stderr, code } = await spawnNode([program], { env, cwd: folder }).done;
  expect({ stderr, code }).toEqual({ stderr: "", code: 0 });
  expect(JSON.parse(stdout)).toMatchObject({ listingId, status: "SENT", numberOfGuests: 2 });
});
