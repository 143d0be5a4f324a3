import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { withoutSecrets } from "../../gateway/process/log.js";
import { mint } from "../../server/keys/authenticator.js";
import { asOperator, fixedStay, openTestServices } from "../factories.js";
import { createTestDatabase, freePort, type RunningProcess, runCli, spawnCli } from "../harness.js";
import { mailEnv, startMailServer } from "../server/mail-server.js";
import { clientOf, failure, TOKEN } from "./inside.js";

const GUEST = "ada.o'hara+stay@guests.test";
const HOST = "host@people.test";
const UNKNOWN = mint("READ_WRITE");

describe("a run that meets keys and addresses in every place", () => {
  let service: RunningProcess;
  let office: Awaited<ReturnType<typeof startMailServer>>;
  let databaseUrl: string;
  let key: string;
  let readOnlyKey: string;
  let keyId: string;
  let correlationId: string;
  let said = "";

  beforeAll(async () => {
    databaseUrl = (await createTestDatabase()).url;
    const services = await openTestServices({ DATABASE_URL: databaseUrl, APP_SECRETS: "" });
    const operator = asOperator(services);
    const { id: userId } = await operator.users.create({ email: HOST, name: HOST });
    const { id: listingId } = await operator.listings.create({
      ownerId: userId,
      title: "Loft",
      address: "Kanalweg 7",
      city: "Berlin",
      country: "Germany",
      zipCode: "10997",
      timezone: "Europe/Berlin",
    });
    ({ key, id: keyId } = await operator.keys.issue({ userId, mode: "READ_WRITE", label: HOST }));
    readOnlyKey = (await operator.keys.issue({ userId, mode: "READ_ONLY" })).key;
    const internalPort = await freePort();
    office = await startMailServer();
    service = spawnCli(["serve", "--json"], {
      env: {
        DATABASE_URL: databaseUrl,
        PORT: "0",
        INTERNAL_PORT: String(internalPort),
        INTERNAL_TOKEN: TOKEN,
        LOG_LEVEL: "trace",
        ...mailEnv(office.url),
      },
    });
    const [, text = ""] = await service.waitForLine(/^(\{"url".+\})$/, 60_000);
    const { url } = JSON.parse(text);

    const send = async (path: string, { method = "GET", body, ...headers }: Record<string, string> = {}) => {
      const response = await fetch(url + path, {
        method,
        headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json", ...headers },
        ...(body !== undefined && { body }),
      });
      await response.text();
      return response.headers.get("x-correlation-id") ?? "";
    };
    const post = (body: unknown, headers = {}) =>
      send("/v1/forms", { method: "POST", body: JSON.stringify(body), ...headers });
    correlationId = await post(fixedStay(listingId, { guestEmail: GUEST }), {
      "Idempotency-Key": `${GUEST} ${key}`,
    });
    await post({ ...fixedStay(listingId), [GUEST]: key, [key]: GUEST });
    await post({ ...fixedStay(listingId), guestEmail: `${GUEST} ${key}`, listingId: key });
    await post(`${GUEST} ${key}`);
    await send("/v1/forms", {
      method: "POST",
      body: `{"guestEmail":"${GUEST}", "${key}`,
      "Content-Type": key,
    });
    await send(`/v1/forms/${key}?email=${GUEST}`);
    await send(`/v1/forms?cursor=${key}&${GUEST}=${key}&listingId=${key}`);
    await send(`/v1/${encodeURIComponent(GUEST)}/${key}`);
    await send(`/${key}`, {
      "User-Agent": key,
      Referer: `https://x.test/?key=${key}&for=${GUEST}`,
      Origin: `https://${key}`,
    });
    await send("/v1/listings", { "X-API-Key": key, Cookie: key, From: GUEST, traceparent: key });
    await send("/v1/listings", { Authorization: `Bearer ${UNKNOWN}` });
    await send("/v1/listings", {
      Authorization: `Basic ${Buffer.from(`${HOST}:${key}`).toString("base64")}`,
    });
    await send("/v1/listings", { Authorization: `Bearer ${readOnlyKey}x` });
    await send("/v1/forms", { method: "POST", body: "{}", Authorization: `Bearer ${readOnlyKey}` });
    await send("/v1/forms", { method: "PURGE", [key]: GUEST });

    const inside = `http://127.0.0.1:${internalPort}`;
    const core = clientOf(inside);
    await core.users.find.query({ email: HOST });
    await failure(core.users.create.mutate({ email: HOST }));
    await failure(core.keys.revoke.mutate({ id: key }));
    await failure(clientOf(inside, { headers: { "X-User-Id": HOST } }).listings.list.query({}));
    await fetch(`${inside}/trpc/${key}?input=${GUEST}`, { headers: { Authorization: `Bearer ${TOKEN}` } });
    await fetch(`${inside}/trpc/keys.list`, { headers: { Authorization: `Bearer ${key}` } });
    // Postgres quotes in its messages what it was given.
    const pool = services.db.pool;
    await pool.query(
      `CREATE FUNCTION complain() RETURNS trigger LANGUAGE plpgsql AS $$
       BEGIN RAISE EXCEPTION 'no % and no %', new.email, '${key}' USING DETAIL = 'Key (email)=(' || new.email || ')'; END $$`,
    );
    await pool.query(
      "CREATE TRIGGER complain BEFORE INSERT ON users FOR EACH ROW EXECUTE FUNCTION complain()",
    );
    expect(await failure(core.users.create.mutate({ email: GUEST }))).toMatchObject({ httpStatus: 500 });
    await service.waitForLine(/"msg":"notification sent"/);
    const { stdout, stderr } = await service.stop();
    said = stdout + stderr;
  }, 120_000);

  test("logs no key, no token and no address, in whatever encoding", () => {
    const secrets = [key, readOnlyKey, UNKNOWN, TOKEN].flatMap((secret) => [secret, secret.slice(12)]);
    const encodings = (text: string) => [
      text,
      encodeURIComponent(text),
      Buffer.from(text).toString("base64").replace(/=+$/, ""),
      Buffer.from(text).toString("hex"),
      JSON.stringify(text).slice(1, -1),
    ];
    for (const secret of [...secrets, GUEST, HOST, "hara+stay"].flatMap(encodings)) {
      expect(said.toLowerCase().includes(secret.toLowerCase()), secret).toBe(false);
    }
    expect(said).toMatch(/"err":.*no \[e-mail\] and no grf_rw_…/);
    expect(said).toContain("a***@g***.test");
  });

  test("every line is one JSON object, and a request's has its correlation id and its key's id", () => {
    const lines = said
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
    const requests = lines.filter(({ msg }) => msg === "request");
    expect(requests.length).toBeGreaterThan(15);
    expect(requests.every((line) => /^[0-9a-f-]{36}$/.test(line.correlationId))).toBe(true);
    expect(new Set(requests.map((line) => line.correlationId)).size).toBe(requests.length);
    expect(requests.find((line) => line.correlationId === correlationId)).toMatchObject({
      keyId,
      operation: "forms.create",
      status: 201,
    });
  });

  test("guest-forms trace tells what the request did, when, by whom and to what, and the field to search", async () => {
    const env = { DATABASE_URL: databaseUrl };
    const traced = JSON.parse((await runCli(["trace", correlationId, "--json"], { env })).stdout);
    expect(traced).toEqual({
      correlationId,
      logField: "correlationId",
      entries: [
        {
          id: expect.stringMatching(/^\d+$/),
          at: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
          actor: "key",
          actorId: keyId,
          userId: expect.any(String),
          action: "form.created",
          subjectId: expect.any(String),
          correlationId,
          details: { listingId: expect.any(String) },
        },
      ],
    });
    const { stdout } = await runCli(["trace", correlationId], { env });
    expect(stdout).toMatch(/form\.created .* key /);
    expect(stdout).toContain(`"correlationId":"${correlationId}"`);
    expect(said).toContain(`"correlationId":"${correlationId}"`);
    const nothing = await runCli(["trace", "00000000-0000-4000-8000-000000000000"], { env });
    expect([nothing.code, nothing.stdout]).toEqual([0, expect.stringContaining("No changes recorded")]);
    const wrong = await runCli(["trace", "yesterday"], { env });
    expect([wrong.code, wrong.stderr]).toEqual([2, "error: ID: must be a UUID\n"]);
  }, 60_000);

  afterAll(() => Promise.all([service?.stopOrKill(), office?.close()]));
});

test("a line stays JSON whatever is taken out of it", () => {
  const values = [
    `line\n${GUEST}`,
    `\u0001${HOST}`,
    `"${HOST}"`,
    `C:\\${HOST}`,
    `postgres://app:secret@db.example.com/forms`,
    `${"x".repeat(200)}@example.com`,
    `${UNKNOWN}${UNKNOWN}`,
    "a***@e***.com",
    "node_modules/@prisma/client",
    "grf_rw_AbCdE",
  ];
  const told = values.map((value) => JSON.parse(withoutSecrets(JSON.stringify({ value }))).value);
  expect(told.slice(0, 4)).toEqual(["line\n[e-mail]", "\u0001[e-mail]", '"[e-mail]"', "C:\\[e-mail]"]);
  expect(told[4]).toBe("postgres://app:[e-mail]/forms");
  expect(told[5]).not.toContain("@");
  expect(told[6]).not.toContain(UNKNOWN.slice(7));
  expect(told.slice(7)).toEqual(values.slice(7));
});

test("a long line is looked through at once", () => {
  const began = performance.now();
  withoutSecrets(`${"a.".repeat(100_000)}@`);
  withoutSecrets(`grf_${"@a.".repeat(60_000)}`);
  expect(performance.now() - began).toBeLessThan(2_000);
});
