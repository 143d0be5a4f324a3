import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { CORRELATION_ID, errorEnvelope, passThrough, resetBeforeProcessing, respondWith } from "../sdk/fault-proxy.js";
import { root, sdkFolder, TSC, useSdk } from "./sdk.js";

const use = await useSdk();
await use.succeed(sdkFolder, process.execPath, "build.mjs");

const example = (name: string, ...args: string[]) => use.node(use.folder, join(sdkFolder, "examples", name), ...args);
const listingId = () => use.gateway.listings[2]?.id ?? "";

test("the examples pass type checking", { timeout: 180_000 }, async () => {
  await use.succeed(root, process.execPath, TSC, "-p", "sdk/examples");
});

test("import-csv creates one form per row, even if it runs twice", async () => {
  const head = "\uFEFFlistingId,checkInDate,checkOutDate,numberOfGuests,guestEmail\r\n";
  const row = (day: number, email = "") =>
    `${listingId()},2035-01-${10 + day}T15:00:00Z,2035-01-${11 + day}T10:00:00Z,2,${email}\r\n`;
  const bad = `${listingId()},2035-01-12T15:00:00Z,2035-01-11T10:00:00Z,2,"a ""b"" <c@d.e>,"\r\n`;
  await writeFile(join(use.folder, "stays.csv"), head + row(1) + row(2, "ana@example.com") + bad + row(3));
  const first = await example("import-csv.mjs", "stays.csv");
  expect(first.stdout).toBe("3 created, 0 already existed, 1 failed, 4 in total\n");
  expect(first.output).toContain("row 3: checkOutDate ");
  expect(first.code).toBe(1);
  await writeFile(join(use.folder, "stays.csv"), head + row(1) + row(2, "ana@example.com") + row(3) + row(4));
  const second = await example("import-csv.mjs", "stays.csv");
  expect(second).toMatchObject({ code: 0, stdout: "1 created, 3 already existed, 0 failed, 4 in total\n" });
  const imported = (await use.gateway.forms()).filter((form) => form.checkInDate?.startsWith("2035-"));
  expect(imported).toHaveLength(4);
});

test("mirror-forms resumes after a failure and appends new forms", async () => {
  const forms = () => use.gateway.forms(listingId());
  const add = async (count: number, year: number) => {
    for (let i = 0; i < count; i++) {
      await use.gateway.client().forms.create({
        listingId: listingId(),
        checkInDate: new Date(Date.UTC(year, 0, i + 1, 15)),
        checkOutDate: new Date(Date.UTC(year, 0, i + 2, 10)),
        numberOfGuests: 1,
      });
    }
  };
  const mirrored = async () =>
    (await readFile(join(use.folder, "forms.jsonl"), "utf8"))
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
  await add(250, 2036);
  // The third page fails permanently, after two pages were written.
  const { proxy } = use.gateway;
  proxy.injectNext(passThrough, passThrough, errorEnvelope(403, "FORBIDDEN"));
  const stopped = await example("mirror-forms.mjs", "forms.jsonl", listingId());
  expect(stopped.code).toBe(1);
  expect(await mirrored()).toEqual((await forms()).slice(0, 200));
  await writeFile(join(use.folder, "forms.jsonl"), '{"half', { flag: "a" });
  proxy.requests.length = 0;
  expect(await example("mirror-forms.mjs", "forms.jsonl", listingId())).toMatchObject({ code: 0 });
  expect(proxy.requests).toHaveLength(1);
  expect(await mirrored()).toEqual(await forms());
  await add(120, 2037);
  expect(await example("mirror-forms.mjs", "forms.jsonl", listingId())).toMatchObject({ code: 0 });
  expect(await mirrored()).toEqual(await forms());
});

test("handle-errors prints advice for each error", async () => {
  const created = await example("handle-errors.mjs", listingId());
  expect(created).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^Form [0-9a-f-]{36} is SENT\n$/),
  });
  const advice = async (fault: Parameters<typeof use.gateway.proxy.injectAlways>[0]) => {
    use.gateway.proxy.injectAlways(fault);
    const ran = await example("handle-errors.mjs", listingId());
    expect(ran.code).toBe(1);
    return ran.output;
  };
  expect(await advice(errorEnvelope(401, "UNAUTHENTICATED"))).toContain(
    `get a new one.\ncorrelation: ${CORRELATION_ID}`,
  );
  expect(await advice(errorEnvelope(429, "RATE_LIMITED", { "retry-after": "42" }))).toContain("retry in 42 s");
  expect(await advice(errorEnvelope(400, "VALIDATION_ERROR", {}, { errors: [{ field: "a", issue: "b" }] }))).toContain(
    "a: b",
  );
  expect(await advice(respondWith(404, "<p>"))).toContain("perhaps from a proxy");
  expect(await advice(resetBeforeProcessing)).toContain("Repeat the same call");
});
