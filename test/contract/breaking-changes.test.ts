import { readdirSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { buildDocument } from "../../gateway/openapi/document.js";
import { PACKAGE } from "../../gateway/runtime/package.js";
import { breakingChanges } from "./breaking-changes.js";

const read = (name: string) => readFileSync(new URL(name, import.meta.url), "utf8");
const committed = read("../../gateway/openapi/openapi.json");

it.each(readdirSync(new URL("released", import.meta.url)))("the document has no breaking change since %s", (name) => {
  expect(breakingChanges(JSON.parse(read(`released/${name}`)), buildDocument(PACKAGE.version))).toEqual([]);
});

// biome-ignore lint/suspicious/noExplicitAny: the changes below edit plain JSON that has no type
type Doc = any;
type Edit = (parts: Record<"doc" | "create" | "list" | "form" | "input", Doc>) => unknown;

/** Changes in the document after this edit. */
function compareAfter(edit: Edit): string {
  const doc: Doc = JSON.parse(committed);
  const { FormV1: form, FormInput: input } = doc.components.schemas;
  const { post: create, get: list } = doc.paths["/v1/forms"];
  edit({ doc, create, list, form, input });
  expect(doc, "the edit must change the document").not.toEqual(JSON.parse(committed));
  return breakingChanges(JSON.parse(committed), doc).join("\n");
}

const move = (object: Doc, from: string, to: string) => {
  object[to] = object[from];
  delete object[from];
};
const dataOf = (doc: Doc, event: string) => doc.components.schemas[event].properties.data;
const codesOf = (doc: Doc) => doc.components.responses.InvalidQuery.content["application/json"].examples;

it.each<[string, Edit]>([
  ["a removed path", ({ doc }) => delete doc.paths["/v1/listings/{id}"]],
  ["a removed operation", ({ doc }) => delete doc.paths["/v1/forms/{id}"].put],
  ["a renamed operation", ({ create }) => Object.assign(create, { operationId: "newForm" })],
  ["a removed response field", ({ form }) => delete form.properties.publicId],
  ["a field that may now be absent", ({ form }) => form.required.pop()],
  ["a field that may now be null", ({ form }) => Object.assign(form.properties.id, { type: ["string", "null"] })],
  ["a field of another format", ({ form }) => Object.assign(form.properties.checkInDate, { format: "date" })],
  ["a removed status value", ({ form }) => form.properties.status.anyOf[0].enum.shift()],
  ["a status that becomes a closed enumeration", ({ form }) => form.properties.status.anyOf.pop()],
  ["a removed error code", ({ doc }) => delete codesOf(doc).INVALID_CURSOR],
  ["a removed response header", ({ create }) => delete create.responses["201"].headers.Location],
  [
    "a header that may be absent",
    ({ doc }) => Object.assign(doc.components.headers["Retry-After"], { required: false }),
  ],
  ["another success status", ({ create }) => move(create.responses, "201", "200")],
  ["another error status", ({ create }) => move(create.responses, "422", "409")],
  ["a newly required request field", ({ input }) => input.required.push("guestEmail")],
  ["a removed request field", ({ input }) => delete input.properties.guestEmail],
  ["a narrower type", ({ input }) => Object.assign(input.properties.guestEmail, { type: "string" })],
  ["a lower maximum", ({ input }) => Object.assign(input.properties.numberOfGuests, { maximum: 20 })],
  ["a new restriction", ({ input }) => Object.assign(input.properties.numberOfGuests, { const: 2 })],
  ["another pattern", ({ create }) => Object.assign(create.parameters[0].schema, { pattern: "^\\w+$" })],
  ["a removed parameter", ({ list }) => list.parameters.splice(1, 1)],
  ["a newly required parameter", ({ list }) => Object.assign(list.parameters[2], { required: true })],
  ["a new parameter that is required", ({ list }) => list.parameters.push({ in: "query", name: "a", required: true })],
  ["another default", ({ list }) => Object.assign(list.parameters[0].schema, { default: 20 })],
  ["another content type", ({ create }) => move(create.requestBody.content, "application/json", "application/xml")],
  ["a removed authentication scheme", ({ doc }) => doc.security.pop()],
  ["a removed event", ({ doc }) => delete doc.webhooks["form.moved"]],
  ["a removed field of an event", ({ doc }) => delete dataOf(doc, "FormMovedEvent").properties.previousListingId],
  ["a field of an event that may now be absent", ({ doc }) => dataOf(doc, "FormMovedEvent").required.pop()],
  ["a removed header of webhook requests", ({ doc }) => doc.webhooks["form.moved"].post.parameters.pop()],
  ["another key header", ({ doc }) => Object.assign(doc.components.securitySchemes.apiKey, { name: "Key" })],
])("%s is a breaking change", (_, edit) => expect(compareAfter(edit)).not.toBe(""));

it.each<[string, Edit]>([
  ["a new operation", ({ doc, create }) => Object.assign(doc.paths["/v1/forms/{id}"], { delete: create })],
  ["a new response field", ({ form }) => Object.assign(form.properties, { note: { type: "string" } })],
  ["a new optional request field", ({ input }) => Object.assign(input.properties, { note: { type: "string" } })],
  ["a new optional parameter", ({ list }) => list.parameters.push({ in: "query", name: "country", schema: {} })],
  ["a new status value", ({ form }) => form.properties.status.anyOf[0].enum.push("ARCHIVED")],
  ["a new error status", ({ create }) => Object.assign(create.responses, { 409: create.responses["422"] })],
  ["a new error code", ({ doc }) => Object.assign(codesOf(doc), { CONFLICT: {} })],
  ["a new response header", ({ create }) => Object.assign(create.responses["201"].headers, { Sunset: { schema: {} } })],
  ["a request field that is no longer required", ({ input }) => input.required.pop()],
  ["a higher maximum", ({ input }) => Object.assign(input.properties.guestEmail, { maxLength: 320 })],
  ["a new event", ({ doc }) => Object.assign(doc.webhooks, { "form.archived": doc.webhooks["form.moved"] })],
  [
    "a new field of an event",
    ({ doc }) => Object.assign(dataOf(doc, "FormMovedEvent").properties, { reason: { type: "string" } }),
  ],
  [
    "a renamed schema with the same fields",
    ({ doc }) => Object.assign(doc, JSON.parse(JSON.stringify(doc).replaceAll("ErrorEnvelope", "Problem"))),
  ],
  ["a changed description", ({ create }) => Object.assign(create, { description: "Creates." })],
])("%s is not a breaking change", (_, edit) => expect(compareAfter(edit)).toBe(""));
