import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { OPERATIONS } from "../../gateway/operations/operations.js";
import { EVENT_TYPES, TEST_EVENT } from "../../server/constants.js";
import { validateEvent, validateResponse } from "../support/validate-response.js";
import { documentSamples, guideSamples } from "./samples.js";

const read = (name: string) => readFileSync(new URL(name, import.meta.url), "utf8");
const committed: Document = JSON.parse(read("../../gateway/openapi/openapi.json"));
const { paths, webhooks, components } = committed;

const LABELS = ["curl", "JavaScript", "TypeScript SDK", "Python", "PHP", "Java", "C#"];

it("every operation has its success status, the common errors, 400 if it has a query or body, and samples in seven languages", () => {
  for (const { path, verb, status, inputSource } of OPERATIONS) {
    const operation = paths[path]?.[verb];
    const expected = [String(status), "401", "429", "500", "503", ...(inputSource ? ["400"] : [])];
    expect(Object.keys(operation?.responses ?? {})).toEqual(expect.arrayContaining(expected));
    expect(operation?.["x-codeSamples"].map(({ label }) => label)).toEqual(LABELS);
  }
});

it("example responses match the schema and the requests of the samples", () => {
  const normalize = (value: unknown) => (/T.*:/.test(String(value)) ? Date.parse(String(value)) : value);
  for (const [path, item] of Object.entries(paths)) {
    for (const [method, operation] of Object.entries(item)) {
      const [[status = "", success] = []] = Object.entries(operation.responses);
      const { example } = success?.content["application/json"] ?? {};
      validateResponse(method.toUpperCase(), path, Number(status), SAMPLE_HEADERS, example);
      const [curl] = operation["x-codeSamples"];
      const sent = /-d '(.*)'$/s.exec(curl?.source ?? "")?.[1];
      if (!sent) continue;
      const { guestEmail: _, ...stay } = JSON.parse(sent);
      for (const [field, value] of Object.entries(stay)) {
        expect(normalize(example?.[field]), `${operation.operationId} ${field}`).toBe(normalize(value));
      }
      expect(example).toMatchObject({ numberOfVehicles: null, numberOfPets: null });
    }
  }
});

// No test can run them: Debian has no .NET.
it("the samples in C# send the method, the target, the headers and the body of those for curl, and check the status", () => {
  const operations = Object.values(paths).flatMap((item) => Object.values(item));
  for (const { "x-codeSamples": samples } of operations) {
    const sourceOf = (name: string) => samples.find(({ label }) => label === name)?.source ?? "";
    const [curl, csharp] = [sourceOf("curl"), sourceOf("C#")];
    const body = /-d '(.*)'$/s.exec(curl)?.[1];
    const method = /-X (\w+)/.exec(curl)?.[1] ?? (body ? "POST" : "GET");
    expect(/HttpMethod\.(\w+), url\)/.exec(csharp)?.[1]?.toUpperCase()).toBe(method);
    expect(/BASE_URL"\) \+ "(.*)";$/m.exec(csharp)?.[1]).toBe(/BASE_URL(.*?)" /.exec(curl)?.[1]);
    const headers = [...curl.matchAll(/-H "([\w-]+): (.*)"/g)].map(([, name, value]) => [name, value]);
    for (const [name, value] of headers.filter(([name]) => !/^(Authorization|Content-Type)$/.test(name ?? ""))) {
      expect(csharp).toContain(`request.Headers.Add("${name}", "${value}");`);
    }
    const sent = /StringContent\("""\n(.*)\n {4}""", Encoding.UTF8, "application\/json"\);/s.exec(csharp)?.[1];
    expect(sent && JSON.parse(sent)).toEqual(body && JSON.parse(body));
    expect(csharp).toContain('new AuthenticationHeaderValue("Bearer", key)');
    expect(csharp).toContain("if (!response.IsSuccessStatusCode) throw");
  }
});

it("the sample in C# of the first request does what that of the operation does, and reads the title", () => {
  const [guide, ...others] = guideSamples().filter(({ language }) => language === "csharp");
  const operation = documentSamples().find(({ name }) => name === "listListings csharp");
  const shared = operation?.source.split("\n").filter((line) => !/^var url|WriteLine/.test(line)) ?? [];
  expect(shared.length).toBeGreaterThan(8);
  expect(guide?.source.split("\n")).toEqual(expect.arrayContaining(shared));
  expect(guide?.source).toContain('"GUEST_FORMS_BASE_URL") + "/v1/listings?limit=1";');
  expect(guide?.source).toContain('items[0].GetProperty("title").GetString()');
  expect(others).toEqual([]);
});

it("every property, parameter and header has an example, and every error response one per code", () => {
  const missing: string[] = [];
  const check = (name: string, schema: Described) => {
    if (!["example", "examples"].some((key) => key in schema)) missing.push(name);
  };
  const checkProperties = (schema: string, properties: Record<string, Described>) => {
    for (const [name, property] of Object.entries(properties)) {
      if (property.properties) checkProperties(`${schema}.${name}`, property.properties);
      // The items, and what a reference leads to, are schemas of their own.
      else if (property.type !== "array" && !property.$ref) check(`${schema}.${name}`, property);
    }
  };
  for (const [name, { properties }] of Object.entries(components.schemas)) checkProperties(name, properties);
  for (const [name, parameter] of Object.entries(components.parameters)) check(`parameter ${name}`, parameter);
  for (const [name, header] of Object.entries(components.headers)) check(`header ${name}`, header);
  for (const [name, { content }] of Object.entries(components.responses)) check(name, content["application/json"]);
  for (const { operationId, parameters = [] } of Object.values(paths).flatMap((item) => Object.values(item))) {
    for (const { name, schema, ...parameter } of parameters)
      check(`${operationId} ${name}`, { ...schema, ...parameter });
  }
  expect(Object.keys(components.schemas)).toEqual(expect.arrayContaining(["FormV1", "Listing", "ErrorEnvelope"]));
  expect(missing).toEqual([]);
});

it("null is a type and never an alternative, and no schema has the name of a JavaScript global", () => {
  const alternatives: { type?: unknown }[] = [];
  JSON.parse(read("../../gateway/openapi/openapi.json"), (key, value) => {
    if (key === "anyOf" || key === "oneOf") alternatives.push(...value);
    return value;
  });
  expect(alternatives.length).toBeGreaterThan(2);
  expect(alternatives.filter(({ type }) => [type].flat().includes("null"))).toEqual([]);
  expect(components.schemas.FormV1?.properties.publicId?.type).toEqual(["string", "null"]);
  expect(Object.keys(components.schemas).filter((name) => name in globalThis)).toEqual([]);
});

it("no response and no event has an email address", () => {
  const { FormInput, FormUpdate, ...sentSchemas } = components.schemas;
  const withoutDescriptions = (schema: unknown) =>
    JSON.stringify(schema, (key, value) => (key === "description" && typeof value === "string" ? undefined : value));
  for (const input of [FormInput, FormUpdate]) expect(withoutDescriptions(input)).toMatch(/mail/i);
  expect(withoutDescriptions(sentSchemas)).not.toMatch(/mail/i);
});

it("every type of event is documented, with an example that matches its schema", () => {
  expect(Object.keys(webhooks)).toEqual([...EVENT_TYPES, TEST_EVENT]);
  for (const [type, { post }] of Object.entries(webhooks)) {
    const { example } = post.requestBody.content["application/json"];
    expect(example).toMatchObject({ type });
    validateEvent(type, example);
  }
  const now = "2027-07-01T13:00:00.000Z";
  expect(() => validateEvent(TEST_EVENT, { type: TEST_EVENT, timestamp: "yesterday", sentAt: now, data: {} })).toThrow(
    "timestamp",
  );
  expect(() => validateEvent(TEST_EVENT, { type: TEST_EVENT, timestamp: now, sentAt: now, data: { a: 1 } })).toThrow(
    "/data",
  );
});

it("the document, the package and the changelog have the same version", () => {
  const { version } = JSON.parse(read("../../package.json"));
  expect(committed.info.version).toBe(version);
  expect(/^## (\d\S+)/m.exec(read("../../CHANGELOG.md"))?.[1]).toBe(version);
});

/** The required response headers. */
const SAMPLE_HEADERS = {
  location: "/v1/forms/8a0e2f3c-6a58-4d5c-9d3e-2f0a6f1c7b11",
  "x-correlation-id": "0d2f9c1a-4c0e-4d64-9a52-0c5b8d9a8b1f",
};

interface Described {
  $ref?: string;
  type?: unknown;
  properties?: Record<string, Described>;
  example?: unknown;
  examples?: unknown;
}

interface Document {
  info: { version: string };
  paths: Record<string, Record<string, Operation>>;
  webhooks: Record<string, { post: { requestBody: { content: { "application/json": Described } } } }>;
  components: {
    schemas: Record<string, { properties: Record<string, Described> }>;
    parameters: Record<string, Described>;
    headers: Record<string, Described>;
    responses: Record<string, { content: { "application/json": Described } }>;
  };
}

interface Operation {
  operationId: string;
  parameters?: (Described & { name: string; schema: Described })[];
  responses: Record<string, { content: Record<string, { example?: Record<string, unknown> }> }>;
  "x-codeSamples": { label: string; source: string }[];
}
