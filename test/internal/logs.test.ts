import { expect, test } from "vitest";
import { redactSecrets } from "../../gateway/process/log.js";
import { generateKey } from "../../server/keys/authenticator.js";
import { makeKey, makeListing, makeUser, openTestServices } from "../support/factories.js";
import { sendRequest } from "../support/http-client.js";
import { mailEnv, openMailServer } from "../support/mail-server.js";
import { fixedStay } from "../support/stays.js";
import { createInternalClient, errorOf, spawnInternalGateway, TOKEN } from "./internal-gateway.js";

const GUEST = "ada.o'hara+stay@guests.test";
const HOST = "host@people.test";
const UNKNOWN = generateKey("READ_WRITE");
const READ_ONLY = generateKey("READ_ONLY");

test("every log line of the service is JSON without a key, token or email address in any encoding, whatever requests, calls and errors of Postgres contain", async () => {
  const services = await openTestServices();
  const { id: userId } = await makeUser(services, { email: HOST, name: HOST });
  const { id: listingId } = await makeListing(services, userId);
  const { key, id: keyId } = await makeKey(services, userId, { label: HOST });
  const { key: readOnlyKey } = await makeKey(services, userId, { mode: "READ_ONLY" });
  const mailServer = await openMailServer();
  const { url, publicUrl, service } = await spawnInternalGateway([], {
    DATABASE_URL: services.db.url,
    LOG_LEVEL: "trace",
    ...mailEnv(mailServer.url),
  });
  const body = fixedStay(listingId, { guestEmail: GUEST });
  const create = { method: "POST", headers: { "Idempotency-Key": `${GUEST} ${key}` }, body };
  const basic = `Basic ${Buffer.from(`${HOST}:${key}`).toString("base64")}`;
  expect(await (await fetch(`${publicUrl}/readyz`)).json()).toEqual({ status: "ok" });
  const created = await sendRequest(`${publicUrl}/v1/forms`, key, create);
  const requests: [string, string, Parameters<typeof sendRequest>[2]?][] = [
    ["/v1/forms", key, { method: "POST", body: { ...body, [GUEST]: key, [key]: GUEST } }],
    ["/v1/forms", key, { method: "POST", body: { ...body, guestEmail: `${GUEST} ${key}`, listingId: key } }],
    ["/v1/forms", key, { method: "POST", body: `${GUEST} ${key}`, headers: { "Content-Type": key } }],
    [`/v1/forms/${key}?email=${GUEST}`, key],
    [`/v1/forms?cursor=${key}&${GUEST}=${key}&listingId=${key}`, key],
    [`/v1/${encodeURIComponent(GUEST)}/${key}`, key],
    ["/v1/forms", key, { method: "PURGE", headers: { [key]: GUEST, Origin: `https://${key}` } }],
    ["/v1/forms", readOnlyKey, { method: "POST", body }],
    ["/v1/listings", `${readOnlyKey}x`],
    [`/${key}`, key, { headers: { "User-Agent": key, Referer: `https://x.test/?${GUEST}`, Cookie: key } }],
    [`/v1/${TOKEN}?token=${TOKEN}`, TOKEN, { headers: { "X-API-Key": TOKEN, "User-Agent": TOKEN } }],
    ["/v1/listings", UNKNOWN, { headers: { "X-API-Key": key, traceparent: key } }],
    ["/v1/listings", UNKNOWN, { headers: { Authorization: basic } }],
  ];
  for (const [path, sentKey, options] of requests) await sendRequest(publicUrl + path, sentKey, options);

  const core = createInternalClient(url);
  await core.users.find.query({ email: HOST });
  await errorOf(core.users.create.mutate({ email: HOST }));
  await errorOf(core.keys.revoke.mutate({ id: key }));
  await errorOf(createInternalClient(url, { userId: HOST }).listings.list.query({}));
  const authorized = { Authorization: `Bearer ${TOKEN}` };
  await fetch(`${url}/trpc/${key}?input=${GUEST}`, { headers: authorized });
  await fetch(`${url}/trpc/keys.list`, { headers: { Authorization: `Bearer ${key}` } });
  await fetch(`${url}/trpc/users.list`, { headers: { ...authorized, "X-User-Id": TOKEN, Cookie: TOKEN } });
  await fetch(`${url}/trpc/forms.create`, { method: "POST", headers: authorized, body: TOKEN });
  await fetch(`${url}/${TOKEN}?token=${TOKEN}`, { headers: { Authorization: `Basic ${TOKEN}` } });
  // Error messages of Postgres quote values.
  await services.db.pool.query(
    `CREATE FUNCTION complain() RETURNS trigger LANGUAGE plpgsql AS $$
     BEGIN RAISE EXCEPTION 'no % and no %', new.email, '${key}' USING DETAIL = 'Key (email)=(' || new.email || ')'; END $$;
     CREATE TRIGGER complain BEFORE INSERT ON users FOR EACH ROW EXECUTE FUNCTION complain()`,
  );
  expect(await errorOf(core.users.create.mutate({ email: GUEST }))).toMatchObject({ httpStatus: 500 });
  await service.waitForLine(/"msg":"notification sent"/);
  const { stdout, stderr } = await service.stop();
  const output = stdout + stderr;

  const encodingsOf = (text: string) => [
    text,
    encodeURIComponent(text),
    Buffer.from(text).toString("base64").replace(/=+$/, ""),
    Buffer.from(text).toString("hex"),
    JSON.stringify(text).slice(1, -1),
  ];
  const secrets = [key, readOnlyKey, UNKNOWN, TOKEN].flatMap((secret) => [secret, secret.slice(12)]);
  for (const secret of [...secrets, GUEST, HOST, "hara+stay"].flatMap(encodingsOf)) {
    expect(output.toLowerCase().includes(secret.toLowerCase()), secret).toBe(false);
  }
  expect(output).toMatch(/"err":.*no \[email\] and no grf_rw_…/);
  expect(output).toContain("a***@g***.test");
  const lines = output
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
  const logged = lines.filter(({ msg }) => msg === "request");
  expect(new Set(logged.map(({ correlationId }) => correlationId)).size).toBe(requests.length + 12);
  const correlationId = created.headers["x-correlation-id"];
  expect(logged.find((line) => line.correlationId === correlationId)).toMatchObject({
    keyId,
    operation: "forms.create",
    status: 201,
  });
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
    `the key ${READ_ONLY}`,
    "a***@e***.com",
    "node_modules/@prisma/client",
    "grf_rw_AbCdE",
  ];
  const redacted = values.map((value) => JSON.parse(redactSecrets(JSON.stringify({ value }))).value);
  expect(redacted.slice(0, 4)).toEqual(["line\n[email]", "\u0001[email]", '"[email]"', "C:\\[email]"]);
  expect(redacted[4]).toBe("postgres://app:[email]/forms");
  expect(redacted[5]).not.toContain("@");
  expect(redacted[6]).not.toContain(UNKNOWN.slice(7));
  expect(redacted[7]).toBe("the key grf_ro_…");
  expect(redacted.slice(8)).toEqual(values.slice(8));
});

test("removing secrets from a long line takes less than 2 s", () => {
  const began = performance.now();
  redactSecrets(`${"a.".repeat(100_000)}@`);
  redactSecrets(`grf_${"@a.".repeat(60_000)}`);
  expect(performance.now() - began).toBeLessThan(2_000);
});
