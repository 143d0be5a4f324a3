import { readFileSync } from "node:fs";
import { Session } from "node:inspector/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import { makeListing } from "../support/factories.js";
import { startTestGateway } from "../support/gateway.js";
import { uniqueStay } from "../support/stays.js";

const gateway = await startTestGateway();
const { userId, key } = await gateway.addKeyHolder();
const { id: listingId } = await makeListing(await gateway.services(), userId);

const create = () =>
  gateway.request({
    method: "POST",
    path: "/v1/forms",
    key,
    body: uniqueStay(listingId, { guestEmail: "guest@example.com" }),
  });

/** The product's files of which a function ran since the last call, by V8's coverage. */
async function takeFiles(session: Session): Promise<Set<string>> {
  const { result } = await session.post("Profiler.takePreciseCoverage");
  const hasRun = result.filter(({ functions }) =>
    functions.some(
      ({ functionName, ranges: [range] }) => functionName && range && range.count > 0 && range.startOffset > 0,
    ),
  );
  const files = hasRun.map(({ url }) => url.split(`${packageRoot()}/`)[1] ?? "");
  return new Set(files.filter((file) => /^(gateway|server)\//.test(file)));
}

test("POST /v1/forms runs through at most 24 files, all of which CONTRIBUTING.md names", async () => {
  await create();
  const session = new Session();
  session.connect();
  await session.post("Profiler.enable");
  await session.post("Profiler.startPreciseCoverage", { callCount: true });
  const runs: Set<string>[] = [];
  for (let run = 0; run < 4; run++) {
    await takeFiles(session);
    expect((await create()).status).toBe(201);
    runs.push(await takeFiles(session));
  }
  session.disconnect();
  // What runs beside a request, such as a check of the readiness, does not run beside each.
  const files = [...(runs[0] ?? [])].filter((file) => runs.every((ran) => ran.has(file)));

  const contributing = readFileSync(join(packageRoot(), "CONTRIBUTING.md"), "utf8");
  const [, section = ""] = contributing.split(/\n## One request through the code\n/);
  const named = [...(section.split("\n## ")[0] ?? "").matchAll(/`([\w./-]+\.ts)`/g)].map(([, file]) => file);
  expect(named).toEqual(expect.arrayContaining(files));
  expect(files.length).toBeLessThanOrEqual(24);
  expect(files).toContain("server/forms/write-form.ts");
});
