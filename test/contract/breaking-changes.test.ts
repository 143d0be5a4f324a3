import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { buildDocument } from "../../gateway/openapi/document.js";
import { VERSION } from "../../gateway/openapi/version.js";
import { breakingChanges } from "./breaking-changes.js";

const read = (name: string) => readFileSync(new URL(name, import.meta.url), "utf8");
const committed = read("../../gateway/openapi/openapi.json");

describe("backward compatibility of /v1", () => {
  const released = readdirSync(new URL("released", import.meta.url));

  it.each(released)("the document has no breaking change since %s", (name) => {
    expect(breakingChanges(JSON.parse(read(`released/${name}`)), buildDocument(VERSION))).toEqual([]);
  });
});

// biome-ignore lint/suspicious/noExplicitAny: the changes below edit plain JSON that has no type
type Doc = any;
const FORM_INPUT = (doc: Doc) => doc.components.schemas.FormInput;
const FORM = (doc: Doc) => doc.components.schemas.FormV1;
const CREATE = (doc: Doc) => doc.paths["/v1/forms"].post;
const LIST = (doc: Doc) => doc.paths["/v1/forms"].get;

function compareAfterEdit(change: (doc: Doc) => void): string[] {
  const newer = JSON.parse(committed);
  change(newer);
  expect(newer, "the edit must change the document").not.toEqual(JSON.parse(committed));
  return breakingChanges(JSON.parse(committed), newer);
}

describe("breakingChanges", () => {
  it.each<[string, string, (doc: Doc) => void]>([
    ["a removed path", "GET /v1/listings/{id}: removed", (doc) => delete doc.paths["/v1/listings/{id}"]],
    ["a removed operation", "PUT /v1/forms/{id}: removed", (doc) => delete doc.paths["/v1/forms/{id}"].put],
    ["a renamed operation", "operationId changed", (doc) => (CREATE(doc).operationId = "newForm")],
    ["a removed response field", ".publicId: removed", (doc) => delete FORM(doc).properties.publicId],
    ["a field that may now be absent", ".createdAt: no longer", (doc) => FORM(doc).required.pop()],
    [
      "a field that may now be null",
      ".id: type widened",
      (doc) => (FORM(doc).properties.id.type = ["string", "null"]),
    ],
    [
      "a field of another type",
      "Guests: type",
      (doc) => (FORM(doc).properties.numberOfGuests.type = "string"),
    ],
    [
      "a field of another format",
      "checkInDate: format",
      (doc) => (FORM(doc).properties.checkInDate.format = "date"),
    ],
    [
      "a longer text",
      ".title: maxLength",
      (doc) => (doc.components.schemas.Listing.properties.title.maxLength = 999),
    ],
    [
      "a removed status value",
      "value SENT: removed",
      (doc) => FORM(doc).properties.status.anyOf[0].enum.shift(),
    ],
    [
      "a status that becomes a closed enumeration",
      "alternatives changed",
      (doc) => FORM(doc).properties.status.anyOf.pop(),
    ],
    [
      "a removed error code",
      "code INVALID_CURSOR",
      (doc) =>
        delete doc.components.responses.InvalidQuery.content["application/json"].examples.INVALID_CURSOR,
    ],
    [
      "a removed known code",
      "value FORBIDDEN",
      (doc) => doc.components.schemas.Error.properties.code.anyOf[0].enum.splice(1, 1),
    ],
    [
      "a removed response header",
      "header Location: removed",
      (doc) => delete CREATE(doc).responses["201"].headers.Location,
    ],
    [
      "a header that is no longer required",
      "Retry-After: no longer",
      (doc) => (doc.components.headers["Retry-After"].required = false),
    ],
    [
      "a changed success status",
      "POST /v1/forms 201: removed",
      (doc) => {
        CREATE(doc).responses["200"] = CREATE(doc).responses["201"];
        delete CREATE(doc).responses["201"];
      },
    ],
    [
      "an additional success status",
      "202: a new status",
      (doc) => (CREATE(doc).responses["202"] = CREATE(doc).responses["201"]),
    ],
    [
      "a changed error status",
      "POST /v1/forms 422: removed",
      (doc) => {
        CREATE(doc).responses["409"] = CREATE(doc).responses["422"];
        delete CREATE(doc).responses["422"];
      },
    ],
    [
      "a newly required request field",
      ".guestEmail: newly required",
      (doc) => FORM_INPUT(doc).required.push("guestEmail"),
    ],
    [
      "a new request field that is required",
      ".pets: newly required",
      (doc) => {
        FORM_INPUT(doc).properties.pets = { type: "integer" };
        FORM_INPUT(doc).required.push("pets");
      },
    ],
    [
      "a removed request field",
      ".guestEmail: removed",
      (doc) => delete FORM_INPUT(doc).properties.guestEmail,
    ],
    [
      "a narrower type",
      ".guestEmail: type narrowed",
      (doc) => (FORM_INPUT(doc).properties.guestEmail.type = "string"),
    ],
    [
      "a lower maximum",
      "maximum narrowed",
      (doc) => (FORM_INPUT(doc).properties.numberOfGuests.maximum = 20),
    ],
    [
      "a shorter Idempotency-Key",
      "Idempotency-Key: maxLength",
      (doc) => (CREATE(doc).parameters[0].schema.maxLength = 64),
    ],
    [
      "another pattern",
      "Idempotency-Key: pattern",
      (doc) => (CREATE(doc).parameters[0].schema.pattern = "^\\w+$"),
    ],
    ["a removed parameter", "query cursor: removed", (doc) => LIST(doc).parameters.splice(1, 1)],
    [
      "a newly required parameter",
      "listingId: newly required",
      (doc) => (LIST(doc).parameters[2].required = true),
    ],
    [
      "another default",
      "query limit: default changed",
      (doc) => (LIST(doc).parameters[0].schema.default = 20),
    ],
    [
      "another content type",
      "application/json: removed",
      (doc) => {
        CREATE(doc).requestBody.content = {
          "application/xml": CREATE(doc).requestBody.content["application/json"],
        };
      },
    ],
    ["a removed authentication scheme", "security: changed", (doc) => doc.security.pop()],
    [
      "another name of the key header",
      "scheme apiKey: changed",
      (doc) => (doc.components.securitySchemes.apiKey.name = "Key"),
    ],
  ])("%s is a breaking change", (_, expected, change) => {
    expect(compareAfterEdit(change).join("\n")).toContain(expected);
  });

  it.each<[string, (doc: Doc) => void]>([
    ["a new operation", (doc) => (doc.paths["/v1/forms/{id}"].delete = CREATE(doc))],
    ["a new response field", (doc) => (FORM(doc).properties.note = { type: "string" })],
    ["a new optional request field", (doc) => (FORM_INPUT(doc).properties.note = { type: "string" })],
    [
      "a new optional parameter",
      (doc) => LIST(doc).parameters.push({ in: "query", name: "status", schema: {} }),
    ],
    ["a new status value", (doc) => FORM(doc).properties.status.anyOf[0].enum.push("ARCHIVED")],
    [
      "a new error code",
      (doc) => doc.components.schemas.Error.properties.code.anyOf[0].enum.push("CONFLICT"),
    ],
    ["a new error status", (doc) => (CREATE(doc).responses["409"] = CREATE(doc).responses["422"])],
    [
      "a new response header",
      (doc) => (CREATE(doc).responses["201"].headers.Sunset = { schema: { type: "string" } }),
    ],
    ["a field that is now always there", (doc) => FORM(doc).required.push("publicId")],
    ["a request field that is no longer required", (doc) => FORM_INPUT(doc).required.pop()],
    ["a higher maximum", (doc) => (FORM_INPUT(doc).properties.guestEmail.maxLength = 320)],
    ["a changed description", (doc) => (CREATE(doc).description = "Creates.")],
  ])("%s is not a breaking change", (_, change) => {
    expect(compareAfterEdit(change)).toEqual([]);
  });
});
