import { randomBytes } from "node:crypto";
import { beforeAll, describe, expect, test } from "vitest";
import { mint } from "../../server/keys/authenticator.js";
import { asOperator, setRole } from "../factories.js";
import { errorCodeOf, errorFieldsOf, type HttpResponse, startTestGateway } from "../gateway-harness.js";
import { catalogue, type Entry, type Expected, ID, type KeyName, rawCatalogue } from "./catalogue.js";

const gateway = await startTestGateway();
const keys = {} as Record<KeyName, string>;
/** All that is stored, as the last request left it. */
let rows: Record<string, string> = {};

beforeAll(async () => {
  const services = await gateway.services();
  const { db } = services;
  const holder = await gateway.addKeyHolder();
  const neighbor = await gateway.addKeyHolder();
  const revoked = await gateway.issueKey(holder.userId);
  await asOperator(services).keys.revoke({ id: revoked.id });
  const expired = await gateway.issueKey(holder.userId);
  await db.prisma.apiKey.update({ where: { id: expired.id }, data: { expiresAt: new Date(Date.now() - 1) } });
  const last = holder.key.at(-1) === "0" ? "1" : "0";
  Object.assign(keys, {
    readWrite: holder.key,
    readOnly: holder.readOnlyKey,
    neighbor: neighbor.key,
    revoked: revoked.key,
    expired: expired.key,
    unknown: mint("READ_WRITE"),
    mistyped: holder.key.slice(0, -1) + last,
  } satisfies Record<KeyName, string>);
  for (const key of Object.values(keys)) gateway.forbidInLog(key);

  const place = {
    title: "T",
    address: "A",
    city: "C",
    country: "C",
    zipCode: "Z",
    timezone: "Europe/Berlin",
  };
  for (const [id, owner, fields] of [
    [ID.listing, holder, { maxPeopleInListing: 4 }],
    [ID.second, holder, {}],
    [ID.closed, holder, { active: false, maxPeopleInListing: 4 }],
    [ID.foreign, neighbor, {}],
    [ID.read, neighbor, {}],
  ] as const) {
    const { createdAt } = await db.prisma.listing.create({
      data: { id, publicId: slug(), ...place, ...fields },
    });
    await db.prisma.membership.create({
      data: { userId: owner.userId, listingId: id, listingCreatedAt: createdAt, role: "OWNER" },
    });
  }
  await setRole(services, ID.read, holder.userId, "READER");
  for (const [id, listingId] of [
    [ID.form, ID.listing],
    [ID.foreignForm, ID.foreign],
    [ID.readForm, ID.read],
  ]) {
    await db.prisma.form.create({
      data: { id: String(id), publicId: slug(), listingId: String(listingId), fingerprint: Buffer.alloc(32) },
    });
  }
  rows = await gateway.snapshotTables();
});

const slug = () => randomBytes(15).toString("base64url").concat("_");
const filled = (text: string) => text.replace(/\{(\w+)\}/g, (whole, name) => keys[name as KeyName] ?? whole);

function filledHeaders(headers: Entry["headers"] = {}) {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [
      name,
      typeof value === "string" ? filled(value) : value.map(filled),
    ]),
  );
}

function compare(answer: HttpResponse, expected: Expected): void {
  expect({ status: answer.status, code: errorCodeOf(answer), fields: errorFieldsOf(answer) }).toEqual({
    status: expected.status,
    code: expected.code,
    fields: expected.fields ?? [],
  });
  for (const [name, value] of Object.entries(expected.sends ?? {})) {
    expect(answer.headers[name] ?? null, name).toBe(value);
  }
  if (expected.answer) expect(answer.json).toMatchObject(expected.answer);
}

const writes = ({ status, sends }: Expected) => status === 201 && sends?.["idempotent-replayed"] !== "true";

for (const [group, entries] of Object.entries(catalogue)) {
  describe(group, () => {
    test.each(entries)("$it", async (entry) => {
      const { method = "GET", path = "/v1/forms", key = "readWrite" } = entry;
      const answer = await gateway.request({
        method,
        path: filled(path),
        key: key && keys[key],
        headers: filledHeaders(entry.headers),
        body: entry.body,
        chunked: entry.chunked ?? false,
      });
      compare(answer, entry);
      const before = rows;
      rows = await gateway.snapshotTables();
      if (writes(entry)) expect(rows["public.forms"]).not.toBe(before["public.forms"]);
      else if (entry.status !== 200 || method !== "PUT") expect(rows).toEqual(before);
    });
  });
}

describe("bytes", () => {
  test.each(rawCatalogue)("$it", async ({ bytes, answers, interim = [] }) => {
    const wire = await gateway.openConnection();
    wire.write(typeof bytes === "string" ? filled(bytes) : bytes);
    for (const expected of answers) compare(await wire.readResponse(expected.method), expected);
    expect(wire.interimStatuses).toEqual(interim);
    wire.close();
    const before = rows;
    rows = await gateway.snapshotTables();
    if (!answers.some(writes)) expect(rows).toEqual(before);
  });
});

const PATHS = ["/v1/forms", `/v1/forms/${ID.form}`, "/v1/listings", `/v1/listings/${ID.listing}`];
const OTHERS = ["/livez", "/readyz", "/openapi.json"];
const REFUSED = [`/v1/forms/${ID.missing}`, "/v1/nothing", "/v1/forms?limit=x", "/v1/listings?cursor=x"];

describe("HEAD has the headers of GET and no body", () => {
  const own = new Set(["date", "x-correlation-id", "ratelimit"]);
  const headersOf = ({ headers }: HttpResponse) =>
    Object.fromEntries(Object.entries(headers).filter(([name]) => !own.has(name)));
  test.each([...PATHS, ...OTHERS, ...REFUSED])("%s", async (path) => {
    const [get, head] = [
      await gateway.request({ path, key: keys.readWrite }),
      await gateway.request({ path, key: keys.readWrite, method: "HEAD" }),
    ];
    expect(head.status).toBe(get.status);
    expect(headersOf(head)).toEqual(headersOf(get));
    expect(head.text).toBe("");
  });
});

test("the catalogue has at least 150 requests, each with a name of its own in its group", () => {
  const groups = [...Object.values(catalogue), rawCatalogue];
  expect(groups.flat().length).toBeGreaterThanOrEqual(150);
  for (const group of groups) expect(new Set(group.map(({ it }) => it)).size).toBe(group.length);
});
