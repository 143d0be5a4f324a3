import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { OPERATIONS } from "../../gateway/http/operations.js";
import { ERRORS } from "../../server/errors.js";
import { createInput, formV1 } from "../../server/forms/schema.js";
import { FORM_STATUSES } from "../../server/forms/status.js";
import { listing } from "../../server/listings/schema.js";

const read = (name: string) => readFileSync(new URL(`../../gateway/${name}`, import.meta.url), "utf8");
const page = read("docs/contract.md");
const openApi = JSON.parse(read("openapi/openapi.json")) as {
  paths: Record<string, Record<string, { responses: Record<string, { $ref?: string }> }>>;
  components: {
    responses: Record<string, { content: { "application/json": { examples: Record<string, unknown> } } }>;
  };
};

/** The section below a heading of level 2. */
function section(heading: string): string {
  const [, text] = page.split(`\n## ${heading}\n`);
  if (text === undefined) throw new Error(`The contract has no section "${heading}".`);
  return text.split("\n## ")[0] ?? "";
}

/** The rows of every table in a text, without headings; cells as their Markdown. */
const rows = (text: string): string[][] =>
  [...text.matchAll(/^\|(?! -)(.+)\|$/gm)]
    .map(([, row = ""]) => row.split("|").map((cell) => cell.trim()))
    .filter(([first]) => first?.startsWith("`") || /^[A-Z]/.test(first ?? ""));

const codesIn = (text: string) => [...text.matchAll(/`([A-Z_]+)`/g)].map(([, code = ""]) => code);

/** Fields with "yes" if they accept the value. */
const fieldsThatAccept = (value: null | undefined, schema: z.ZodObject) =>
  Object.entries(schema.shape).map(([name, field]) => [
    `\`${name}\``,
    z.safeParse(field, value).success ? "yes" : "no",
  ]);

describe("contract.md agrees with the code on", () => {
  const operations = rows(section("Operations"));

  it("the method, path, key mode and success status of each operation", () => {
    const declared = OPERATIONS.map(({ method, path, isWrite, status }) => [
      `\`${method} ${path}\``,
      isWrite ? "read-write" : "any",
      String(status),
    ]);
    expect(operations.map(([, ...facts]) => facts).sort()).toEqual(declared.sort());
  });

  it("the fields of a form and of a listing, and which can be null", () => {
    const documented = (heading: string) =>
      rows(section(heading)).map(([name, , nullable]) => [name, nullable]);
    expect(documented("Form")).toEqual(fieldsThatAccept(null, formV1));
    expect(documented("Listing")).toEqual(fieldsThatAccept(null, listing));
  });

  it("the properties of the body, and which are required", () => {
    const required = fieldsThatAccept(undefined, createInput).map(([name, accepts]) => [
      name,
      accepts === "yes" ? "no" : "yes",
    ]);
    expect(rows(section("Form input")).map(([name, , isRequired]) => [name, isRequired])).toEqual(required);
  });

  it("the statuses of a form", () => {
    const sentence = /The values are ([^.]+)\./.exec(section("Status"))?.[1] ?? "";
    expect(codesIn(sentence)).toEqual(FORM_STATUSES);
  });

  it("the status of each error code", () => {
    const documented = rows(section("Errors")).filter(([, status]) => /^\d/.test(status ?? ""));
    for (const [code, { status }] of Object.entries(ERRORS)) {
      expect(documented.find(([name]) => name === `\`${code}\``)?.[1], code).toBe(String(status));
    }
    const known = new Set(documented.map(([name = ""]) => name.replaceAll("`", "")));
    expect([...known].sort()).toEqual(Object.keys(ERRORS).sort());
  });

  it("the error codes of each operation, with their statuses, in the OpenAPI document", () => {
    const errors = rows(section("Errors"));
    const [common = ""] = /Any operation can return [^.]+\./.exec(section("Errors")) ?? [];
    expect(codesIn(common)).toEqual(["UNAUTHENTICATED", "RATE_LIMITED", "INTERNAL_ERROR"]);
    /** Rows of the table of codes: "400 VALIDATION_ERROR", as the handler of an operation returns it. */
    const statuses = errors.flatMap(([code = "", status = ""]) =>
      /^\d{3}$/.test(status) && status !== "405" ? codesIn(code).map((name) => `${status} ${name}`) : [],
    );
    for (const [name = "", request = ""] of operations) {
      const [, own = ""] =
        errors.find(([names = ""]) => names.toLowerCase().split(", ").includes(name.toLowerCase())) ?? [];
      const codes = new Set([...codesIn(common), ...codesIn(own)]);
      const hasBody = /POST|PUT/.test(request);
      const promised = statuses.filter(
        (row) => codes.has(row.slice(4)) && (hasBody || !row.startsWith("415")),
      );
      const [, method = "", path = ""] = /(\w+) (.+)`/.exec(request) ?? [];
      expect(documentedErrors(method, path), name).toEqual(promised.sort());
    }
  });
});

/** Every error that the OpenAPI document has for an operation, such as "400 VALIDATION_ERROR". */
function documentedErrors(method: string, path: string): string[] {
  const { responses = {} } = openApi.paths[path]?.[method.toLowerCase()] ?? {};
  return Object.entries(responses)
    .flatMap(([status, { $ref = "" }]) => {
      const component = openApi.components.responses[$ref.split("/").at(-1) ?? ""];
      const codes = Object.keys(component?.content["application/json"].examples ?? {});
      return codes.map((code) => `${status} ${code}`);
    })
    .sort();
}
