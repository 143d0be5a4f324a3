import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { redactSecrets } from "../../gateway/process/log.js";
import { generateKey } from "../../server/keys/authenticator.js";
import { asOperator, fixedStay, openTestServices } from "../factories.js";
import { createTestDatabase, freePort, type RunningProcess, runCli, spawnCli } from "../harness.js";
import { mailEnv, startMailServer } from "../server/mail-server.js";
import { createInternalClient, errorOf, TOKEN } from "./internal-gateway.js";

const GUEST = "ada.o'hara+stay@guests.test";
const HOST = "host@people.test";
const UNKNOWN = generateKey("READ_WRITE");

describe("logs of requests with keys and email addresses everywhere", () => {
  let service: RunningProcess;
  let mailServer: Awaited<ReturnType<typeof startMailServer>>;
  let databaseUrl: string;
  let key: string;
  let readOnlyKey: string;
  let keyId: string;
  let correlationId: string;
  let output = "";

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
    mailServer = await startMailServer();
    service = spawnCli(["serve", "--json"], {
      env: {
        DATABASE_URL: databaseUrl,
        PORT: "0",
        INTERNAL_PORT: String(internalPort),
        INTERNAL_TOKEN: TOKEN,
        LOG_LEVEL: "trace",
        ...mailEnv(mailServer.url),
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

    const internalUrl = `http://127.0.0.1:${internalPort}`;
    const core = createInternalClient(internalUrl);
    await core.users.find.query({ email: HOST });
    await errorOf(core.users.create.mutate({ email: HOST }));
    await errorOf(core.keys.revoke.mutate({ id: key }));
    await errorOf(
      createInternalClient(internalUrl, { headers: { "X-User-Id": HOST } }).listings.list.query({}),
    );
    await fetch(`${internalUrl}/trpc/${key}?input=${GUEST}`, {
      headers: { Authorization: `Bearer ${TOKEN}` },
    });
    await fetch(`${internalUrl}/trpc/keys.list`, { headers: { Authorization: `Bearer ${key}` } });
    // Error messages of Postgres quote values.
    const pool = services.db.pool;
    await pool.query(
      `CREATE FUNCTION complain() RETURNS trigger LANGUAGE plpgsql AS $$
       BEGIN RAISE EXCEPTION 'no % and no %', new.email, '${key}' USING DETAIL = 'Key (email)=(' || new.email || ')'; END $$`,
    );
    await pool.query(
      "CREATE TRIGGER complain BEFORE INSERT ON users FOR EACH ROW EXECUTE FUNCTION complain()",
    );
    expect(await errorOf(core.users.create.mutate({ email: GUEST }))).toMatchObject({ httpStatus: 500 });
    await service.waitForLine(/"msg":"notification sent"/);
    const { stdout, stderr } = await service.stop();
    output = stdout + stderr;
  }, 120_000);

  test("no log line has a key, token or email address, in any encoding", () => {
    const secrets = [key, readOnlyKey, UNKNOWN, TOKEN].flatMap((secret) => [secret, secret.slice(12)]);
    const encodings = (text: string) => [
      text,
      encodeURIComponent(text),
      Buffer.from(text).toString("base64").replace(/=+$/, ""),
      Buffer.from(text).toString("hex"),
      JSON.stringify(text).slice(1, -1),
    ];
    for (const secret of [...secrets, GUEST, HOST, "hara+stay"].flatMap(encodings)) {
      expect(output.toLowerCase().includes(secret.toLowerCase()), secret).toBe(false);
    }
    expect(output).toMatch(/"err":.*no \[email\] and no grf_rw_…/);
    expect(output).toContain("a***@g***.test");
  });

  test("every log line is a JSON object, and that of a request has its correlation id and key id", () => {
    const lines = output
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

  test("guest-forms trace prints the changes of a request and the log field to search for", async () => {
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
    expect(output).toContain(`"correlationId":"${correlationId}"`);
    const unknown = await runCli(["trace", "00000000-0000-4000-8000-000000000000"], { env });
    expect([unknown.code, unknown.stdout]).toEqual([0, expect.stringContaining("No changes recorded")]);
    const wrong = await runCli(["trace", "yesterday"], { env });
    expect([wrong.code, wrong.stderr]).toEqual([2, "error: ID: must be a UUID\n"]);
  }, 60_000);

  afterAll(() => Promise.all([service?.stopOrKill(), mailServer?.close()]));
});

test("a log line stays valid JSON after secrets are removed", () => {
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
  const redacted = values.map((value) => JSON.parse(redactSecrets(JSON.stringify({ value }))).value);
  expect(redacted.slice(0, 4)).toEqual(["line\n[email]", "\u0001[email]", '"[email]"', "C:\\[email]"]);
  expect(redacted[4]).toBe("postgres://app:[email]/forms");
  expect(redacted[5]).not.toContain("@");
  expect(redacted[6]).not.toContain(UNKNOWN.slice(7));
  expect(redacted.slice(7)).toEqual(values.slice(7));
});

test("removing secrets from a long line takes less than 2 s", () => {
  const began = performance.now();
  redactSecrets(`${"a.".repeat(100_000)}@`);
  redactSecrets(`grf_${"@a.".repeat(60_000)}`);
  expect(performance.now() - began).toBeLessThan(2_000);
});
