import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import type { FormV1 } from "../../sdk/src/index.js";
import { signWebhook } from "../../sdk/src/webhooks.js";
import { CORRELATION_ID, errorEnvelope, passThrough, resetBeforeProcessing, respondWith } from "../sdk/fault-proxy.js";
import { asOperator, openTestServices } from "../support/factories.js";
import { startTestWorker } from "../support/mail-server.js";
import { restartablePort } from "../support/network.js";
import { spawnNode } from "../support/processes.js";
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

describe("mirror-forms", () => {
  const { gateway } = use;
  const unique = () => ({ ...gateway.uniqueStay(), listingId: listingId() });
  const folder = () => join(use.folder, "mirror");
  const mirrored = async (): Promise<FormV1[]> => {
    const files = await readdir(folder()).catch(() => []);
    const texts = files.filter((file) => file.endsWith(".json")).map((file) => readFile(join(folder(), file), "utf8"));
    return (await Promise.all(texts)).map((json) => JSON.parse(json));
  };
  const byId = (forms: FormV1[]) => Object.fromEntries(forms.map((form) => [form.id, form]));
  const mirrors = async (id: string) => byId(await mirrored())[id];
  const expectMirror = async () =>
    expect.poll(async () => byId(await mirrored())).toEqual(byId(await gateway.forms(listingId())));

  /** An endpoint of the key holder, and the worker that sends its events. */
  async function openEndpoint() {
    const port = await restartablePort();
    const { DATABASE_URL } = gateway.gateway.settings;
    const env = { DATABASE_URL: String(DATABASE_URL), WEBHOOK_ALLOW_PRIVATE_ADDRESSES: "true" };
    const services = await openTestServices(env);
    const operator = asOperator(services);
    const [{ userId } = expect.fail("there is no key")] = (await operator.keys.list({})).items;
    const url = `http://127.0.0.1:${port}`;
    const { id, secret } = await operator.webhooks.create({ userId, url });
    onTestFinished(() => void operator.webhooks.delete({ id }).catch(() => {}));
    await startTestWorker(services);
    /** Starts the example, which is stopped after the test. */
    const start = () => {
      const { readWrite, proxy } = gateway;
      const settings = { GUEST_FORMS_API_KEY: readWrite, GUEST_FORMS_BASE_URL: proxy.url };
      const file = join(sdkFolder, "examples/mirror-forms.mjs");
      const mirror = spawnNode([file, "mirror", listingId()], {
        env: { ...settings, WEBHOOK_SECRET: secret, PORT: String(port) },
        cwd: use.folder,
      });
      onTestFinished(async () => void (await mirror.stop("SIGKILL")));
      return mirror;
    };
    return { operator, id, url, secret, start };
  }

  test("lists once, then follows forms that are created, updated, moved away and back, and change their status", async () => {
    const client = gateway.client();
    for (let n = 0; n < 120; n++) await client.forms.create(unique());
    const count = (await gateway.forms(listingId())).length;
    const { operator, url, secret, start } = await openEndpoint();
    const mirror = start();
    await mirror.waitForLine(new RegExp(`^(${count} forms in mirror)$`));
    await expectMirror();

    const stay = unique();
    const { id } = await client.forms.create(stay);
    await expect.poll(() => mirrors(id)).toMatchObject({ numberOfGuests: 2, status: "SENT" });
    await client.forms.update(id, { ...stay, numberOfGuests: 1 });
    await expect.poll(() => mirrors(id)).toMatchObject({ numberOfGuests: 1 });
    await operator.forms.setStatus({ id, status: "COMPLETED" });
    await expect.poll(() => mirrors(id)).toMatchObject({ status: "COMPLETED" });
    await client.forms.update(id, { ...stay, listingId: gateway.listings[1]?.id ?? "" });
    await expect.poll(() => mirrors(id)).toBeUndefined();
    await client.forms.update(id, stay);
    await expect.poll(() => mirrors(id)).toMatchObject({ status: "COMPLETED" });
    await expectMirror();

    const now = new Date().toISOString();
    const event = { type: "webhook.test", timestamp: now, sentAt: now, data: {} } as const;
    const post = async (by: string) => fetch(url, { method: "POST", ...(await signWebhook(event, by)) });
    expect((await post(secret)).status).toBe(200);
    expect((await post(`whsec_${"A".repeat(43)}=`)).status).toBe(400);
    expect((await fetch(url, { method: "POST", body: "x".repeat(70_000) })).status).toBe(413);
    expect(mirror.stderr).toBe("");
  });

  test("has what changed while it was killed, once it is started again", async () => {
    const { operator, start } = await openEndpoint();
    const client = gateway.client();
    const [changed, moved] = [await client.forms.create(unique()), await client.forms.create(unique())];
    const first = start();
    await first.waitForLine(/^(\d+ forms in mirror)$/);
    await first.stop("SIGKILL");
    await operator.forms.setStatus({ id: changed.id, status: "COMPLETED" });
    await client.forms.update(moved.id, { ...unique(), listingId: gateway.listings[1]?.id ?? "" });
    await client.forms.create(unique());
    await start().waitForLine(/^(\d+ forms in mirror)$/);
    await expectMirror();
    expect(await mirrors(changed.id)).toMatchObject({ status: "COMPLETED" });
    expect(await mirrors(moved.id)).toBeUndefined();
  });

  test("keeps a change that arrives while the list is read", async () => {
    const { operator, id, start } = await openEndpoint();
    const form = await gateway.client().forms.create(unique());
    const states = async () => (await operator.webhooks.deliveries({ endpointId: id })).items.map(({ state }) => state);
    // Every page arrives after the event of a change that was made since it was read.
    let isChanged = false;
    gateway.proxy.injectAlways(async ({ request, response, forward }) => {
      const { status, headers, body } = await forward();
      if (!isChanged && request.url?.startsWith("/v1/forms?")) {
        isChanged = true;
        await operator.forms.setStatus({ id: form.id, status: "COMPLETED" });
        await expect.poll(async () => (await states())[0]).toBe("sent");
      }
      response.writeHead(status, headers).end(body);
    });
    await start().waitForLine(/^(\S+ COMPLETED)$/);
    expect(await mirrors(form.id)).toMatchObject({ status: "COMPLETED" });
    await expectMirror();
  });

  test("ends with the error if the list fails permanently, keeps what it has, and resumes", async () => {
    const { start } = await openEndpoint();
    const before = await mirrored();
    expect(before.length).toBeGreaterThan(100);
    gateway.proxy.injectNext(passThrough, errorEnvelope(403, "FORBIDDEN"));
    const stopped = await start().done;
    expect(stopped.code).toBe(1);
    expect(stopped.stderr).toContain("FORBIDDEN");
    expect(byId(await mirrored())).toEqual(byId(before));
    await writeFile(join(folder(), ".new"), '{"half');
    await start().waitForLine(/^(\d+ forms in mirror)$/);
    await expectMirror();
  });
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
