import { randomBytes } from "node:crypto";
import { describe, expect, test } from "vitest";
import document from "../../gateway/openapi/openapi.json" with { type: "json" };
import { ERRORS } from "../../server/errors.js";
import { generateKey } from "../../server/keys/authenticator.js";
import { startHolderGateway } from "../gateway/holder-gateway.js";
import { asOperator } from "../support/factories.js";
import { writeFixtures } from "../support/form-write-guard.js";
import { errorCodeOf, errorFieldsOf, type HttpResponse } from "../support/response.js";
import { bodies, guests, idempotency, mediaTypes, sizes } from "./catalog/bodies.js";
import { type RawExpected, rawRequests } from "./catalog/raw.js";
import { authentication, filters, lists, methods, order, outsideV1, paths } from "./catalog/requests.js";
import { type CatalogRequest, type Expected, ID, type KeyName, type Row } from "./catalog/row.js";

/** Requests that the client of node:http can send. `rawRequests` has the others. */
const requestCatalog: Record<string, Row[]> = {
  "order of checks": order,
  paths,
  methods,
  "content types and encodings": mediaTypes,
  "sizes, fields and depths": sizes,
  "JSON bodies": bodies,
  numberOfGuests: guests,
  "Idempotency-Key": idempotency,
  lists,
  "filters and scope": filters,
  authentication,
  "paths outside /v1": outsideV1,
};

const { gateway, services, holder } = await startHolderGateway();
const { db } = services;
const otherHolder = await gateway.addKeyHolder();
const revoked = await gateway.issueKey(holder.userId);
await asOperator(services).keys.revoke({ id: revoked.id });
const expired = await gateway.issueKey(holder.userId);
await db.prisma.apiKey.update({ where: { id: expired.id }, data: { expiresAt: new Date(Date.now() - 1) } });
const keys: Record<KeyName, string> = {
  readWrite: holder.key,
  readOnly: holder.readOnlyKey,
  otherHolder: otherHolder.key,
  revoked: revoked.key,
  expired: expired.key,
  unknown: generateKey("READ_WRITE"),
  mistyped: holder.key.slice(0, -1) + (holder.key.endsWith("0") ? "1" : "0"),
};
for (const key of Object.values(keys)) gateway.forbidInLog(key);

const randomPublicId = () => randomBytes(15).toString("base64url").concat("_");
const address = { title: "T", address: "A", city: "C", country: "C", zipCode: "Z", timezone: "Europe/Berlin" };
for (const [id, { userId }, fields] of [
  [ID.listing, holder, { maxPeopleInListing: 4 }],
  [ID.secondListing, holder, {}],
  [ID.inactiveListing, holder, { active: false, maxPeopleInListing: 4 }],
  [ID.otherHolderListing, otherHolder, {}],
] as const) {
  const data = { id, publicId: randomPublicId(), ...address, ...fields };
  const { createdAt: listingCreatedAt } = await db.prisma.listing.create({ data });
  await db.prisma.membership.create({ data: { userId, listingId: id, listingCreatedAt, role: "OWNER" } });
}
for (const [id, listingId] of [
  [ID.form, ID.listing],
  [ID.otherHolderForm, ID.otherHolderListing],
] as const) {
  const data = { id, listingId, publicId: randomPublicId(), fingerprint: Buffer.alloc(32) };
  await writeFixtures(db, (tx) => tx.form.create({ data }));
}
/** Snapshot of all rows after the last request. */
let rows = await gateway.snapshotTables();

const insertKeys = (text: string) => text.replace(/\{(\w+)\}/g, (whole, name) => keys[name as KeyName] ?? whole);

function expectResponse(answer: HttpResponse, expected: Expected): void {
  const { status, code, fields = [] } = expected;
  expect({ status: answer.status, code: errorCodeOf(answer), fields: errorFieldsOf(answer) }).toEqual({
    status,
    code,
    fields,
  });
  for (const [name, value] of Object.entries(expected.headers ?? {})) {
    expect(answer.headers[name] ?? null, name).toBe(value);
  }
  if (expected.body) expect(answer.json).toMatchObject(expected.body);
}

const createsForm = ({ status, headers }: Expected) => status === 201 && headers?.["idempotent-replayed"] !== "true";

/** The name of a request with the expected responses, so that each title states a guarantee. */
const titleOf = (name: string, responses: readonly Expected[]) =>
  `${name}: ${responses.map(({ status, code }) => (code ? `${status} ${code}` : status)).join(", ")}`;

for (const [group, requests] of Object.entries(requestCatalog)) {
  describe(group, () => {
    test.each(requests.map(([name, request, expected]) => [titleOf(name, [expected]), request, expected] as const))(
      "%s",
      async (_title, request, expected) => {
        const sent: CatalogRequest = typeof request === "string" ? { path: request } : request;
        const { method = "GET", path = "/v1/forms", key = "readWrite", ...rest } = sent;
        const headers = JSON.parse(insertKeys(JSON.stringify(rest.headers ?? {})));
        const answer = await gateway.request({
          ...{ ...rest, method, headers },
          path: insertKeys(path),
          key: key && keys[key],
        });
        expectResponse(answer, expected);
        const before = rows;
        rows = await gateway.snapshotTables();
        if (createsForm(expected)) expect(rows["public.forms"]).not.toBe(before["public.forms"]);
        else if (expected.status !== 200 || method !== "PUT") expect(rows).toEqual(before);
      },
    );
  });
}

const requests = rawRequests.map(([name, bytes, given, interim = []]) => {
  const responses: readonly RawExpected[] = Array.isArray(given) ? given : [given];
  return [titleOf(name, responses), bytes, responses, interim] as const;
});
test.each(requests)("%s", async (_title, bytes, responses, interim) => {
  const wire = await gateway.openConnection();
  wire.write(typeof bytes === "string" ? insertKeys(bytes) : bytes);
  for (const expected of responses) expectResponse(await wire.readResponse(expected.method), expected);
  expect(wire.interimStatuses).toEqual(interim);
  wire.close();
  const before = rows;
  rows = await gateway.snapshotTables();
  if (!responses.some(createsForm)) expect(rows).toEqual(before);
});

const PATHS = ["/v1/forms", `/v1/forms/${ID.form}`, "/v1/listings", `/v1/listings/${ID.listing}`];
const PATHS_OUTSIDE_V1 = ["/livez", "/readyz", "/openapi.json"];
const REJECTED = [`/v1/forms/${ID.missing}`, "/v1/nothing", "/v1/forms?limit=x", "/v1/listings?cursor=x"];

describe("HEAD has the headers of GET and no body", () => {
  const perResponse = new Set(["date", "x-correlation-id", "ratelimit"]);
  const headersOf = ({ headers }: HttpResponse) =>
    Object.fromEntries(Object.entries(headers).filter(([name]) => !perResponse.has(name)));
  test.each([...PATHS, ...PATHS_OUTSIDE_V1, ...REJECTED])("%s", async (path) => {
    const [get, head] = [
      await gateway.request({ path, key: keys.readWrite }),
      await gateway.request({ path, key: keys.readWrite, method: "HEAD" }),
    ];
    expect(head.status).toBe(get.status);
    expect(headersOf(head)).toEqual(headersOf(get));
    expect(head.text).toBe("");
  });
});

test("the catalog has every operation with success, and every error code that one request can cause", () => {
  const rows = Object.values(requestCatalog).flat();
  const succeeding = rows.flatMap(([, request, { status }]) => {
    const { method = "GET", path = "/v1/forms" } = typeof request === "string" ? { path: request } : request;
    return status < 300 ? [`${method} ${path.replace(/\?.*/, "").replace(/[^/]{36}(?=\/|$)/g, "{id}")}`] : [];
  });
  const operations = Object.entries(document.paths).flatMap(([path, item]) =>
    Object.keys(item).map((method) => `${method.toUpperCase()} ${path}`),
  );
  expect(succeeding).toEqual(expect.arrayContaining(operations));
  const codes = new Set<string | undefined>(rows.map(([, , { code }]) => code));
  expect(Object.keys(ERRORS).filter((code) => !codes.has(code))).toEqual(["RATE_LIMITED", "INTERNAL_ERROR"]);
});
