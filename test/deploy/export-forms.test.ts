import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openTestCore } from "../support/core.js";
import { operatingBlock, runFromPage, runScript } from "../support/operating-page.js";
import { makeTempFolder } from "../support/run-tool.js";

test("the command of operating.md exports the forms whose check-out was more than 11 months ago, and no address", async () => {
  const { services, owner, sql } = await openTestCore();
  const old = await owner.addForm({ guestEmail: "guest@example.com" });
  const recent = await owner.addForm();
  const setCheckOut = "UPDATE forms SET check_out_date = now() - $2::interval WHERE id = $1";
  await sql(setCheckOut, old.id, "400 days");
  await sql(setCheckOut, recent.id, "300 days");
  const folder = await makeTempFolder("export");
  const env = { DATABASE_URL: services.db.url };
  await runFromPage(operatingBlock("COPY ("), (script) => runScript(script, { env, cwd: folder }));
  const [header, ...rows] = (await readFile(join(folder, "forms.csv"), "utf8")).trim().split("\n");
  expect(header).toMatch(/^id,public_id,external_id,.*,status,check_in_date,check_out_date,(?!.*email)/);
  expect(rows.map((row) => row.split(",", 1)[0])).toEqual([old.id]);
});
