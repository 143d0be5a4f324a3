/**
 * Returns the changes of a newer OpenAPI document that break clients of an older one. Additions are allowed: operations,
 * optional parameters and request fields, response fields and headers, error statuses and codes, values of open
 * enumerations. Returns every other change to what clients may send or must understand.
 */
export function breakingChanges(older: unknown, newer: unknown): string[] {
  const changes = new Changes(older as Json, newer as Json);
  changes.compareAll();
  return changes.found;
}

type Json = Record<string, unknown>;
type Direction = "request" | "response";

const asObject = (value: unknown) => (value ?? {}) as Json;
const asList = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);
const typesOf = (schema: Json) => (Array.isArray(schema.type) ? schema.type : [schema.type ?? "any"]);
const isEqual = (a: unknown, b: unknown) => JSON.stringify(a) === JSON.stringify(b);
const difference = (values: unknown[], others: unknown[]) =>
  values.filter((value) => !others.includes(value));

/** Keywords of JSON Schema that get stricter as their value grows, and those that get stricter as it shrinks. */
const LOWER_BOUNDS = ["minimum", "exclusiveMinimum", "minLength", "minItems"];
const UPPER_BOUNDS = ["maximum", "exclusiveMaximum", "maxLength", "maxItems"];

class Changes {
  readonly found: string[] = [];
  readonly #older: Json;
  readonly #newer: Json;

  constructor(older: Json, newer: Json) {
    this.#older = older;
    this.#newer = newer;
  }

  compareAll(): void {
    if (!isEqual(this.#older.security, this.#newer.security)) this.#add("security", "changed");
    const schemes = (document: Json) => asObject(asObject(document.components).securitySchemes);
    for (const [name, scheme] of Object.entries(schemes(this.#older))) {
      const { description: _, ...before } = asObject(scheme);
      const { description: __, ...after } = asObject(schemes(this.#newer)[name]);
      if (!isEqual(before, after)) this.#add(`security scheme ${name}`, "changed");
    }
    for (const [path, item] of Object.entries(asObject(this.#older.paths))) {
      const now = asObject(asObject(this.#newer.paths)[path]);
      for (const [method, operation] of Object.entries(asObject(item))) {
        const at = `${method.toUpperCase()} ${path}`;
        if (now[method]) this.#compareOperation(at, asObject(operation), asObject(now[method]));
        else this.#add(at, "removed");
      }
    }
  }

  #compareOperation(at: string, before: Json, after: Json): void {
    if (before.operationId !== after.operationId) this.#add(at, "operationId changed");
    if (!isEqual(before.security, after.security)) this.#add(at, "security changed");
    this.#compareParameters(at, asList(before.parameters), asList(after.parameters));
    this.#compareBody(`${at} body`, before.requestBody, after.requestBody);
    const [was, is] = [asObject(before.responses), asObject(after.responses)];
    for (const status of difference(Object.keys(is), Object.keys(was))) {
      if (/^[123]/.test(String(status))) this.#add(`${at} ${status}`, "a new status that is no error");
    }
    for (const [status, response] of Object.entries(was)) {
      if (!is[status]) this.#add(`${at} ${status}`, "removed");
      else this.#compareResponse(`${at} ${status}`, this.#old(response), this.#new(is[status]));
    }
  }

  #compareParameters(at: string, before: unknown[], after: unknown[]): void {
    const key = (parameter: Json) => `${parameter.in} ${parameter.name}`;
    const was = new Map(before.map((one) => this.#old(one)).map((one) => [key(one), one]));
    const is = new Map(after.map((one) => this.#new(one)).map((one) => [key(one), one]));
    for (const [name, parameter] of is) {
      if (parameter.required && !was.get(name)?.required) this.#add(`${at} ${name}`, "newly required");
    }
    for (const [name, parameter] of was) {
      const now = is.get(name);
      if (!now) this.#add(`${at} ${name}`, "removed");
      else this.#compareSchema(`${at} ${name}`, parameter.schema, now.schema, "request");
    }
  }

  #compareBody(at: string, before: unknown, after: unknown): void {
    const [was, is] = [this.#old(before), this.#new(after)];
    if (is.required && !was.required) this.#add(at, "newly required");
    this.#compareContent(at, was, is, "request");
  }

  #compareResponse(at: string, before: Json, after: Json): void {
    for (const [name, header] of Object.entries(asObject(before.headers))) {
      const was = this.#old(header);
      const is = this.#new(asObject(after.headers)[name]);
      if (Object.keys(is).length === 0) this.#add(`${at} header ${name}`, "removed");
      else if (was.required && !is.required) this.#add(`${at} header ${name}`, "no longer always there");
      else this.#compareSchema(`${at} header ${name}`, was.schema, is.schema, "response");
    }
    this.#compareContent(at, before, after, "response");
  }

  #compareContent(at: string, before: Json, after: Json, direction: Direction): void {
    for (const [type, media] of Object.entries(asObject(before.content))) {
      const now = asObject(after.content)[type];
      if (!now) {
        this.#add(`${at} ${type}`, "removed");
        continue;
      }
      this.#compareSchema(at, asObject(media).schema, asObject(now).schema, direction);
      // The examples of an error response are named by the codes it can carry.
      const names = (one: unknown) => Object.keys(asObject(asObject(one).examples));
      for (const code of difference(names(media), names(now))) this.#add(`${at} code ${code}`, "removed");
    }
  }

  #compareSchema(at: string, before: unknown, after: unknown, direction: Direction): void {
    const [was, is] = [this.#old(before), this.#new(after)];
    for (const value of difference(knownValues(was), knownValues(is)))
      this.#add(`${at} value ${value}`, "removed");
    if (was.anyOf || is.anyOf) {
      this.#compareOpen(at, was, is, direction);
      return;
    }
    // Requests that were valid must stay valid; responses must be valid under the older schema.
    const [inner, outer] = direction === "request" ? [was, is] : [is, was];
    const add = (what: string) =>
      this.#add(at, `${what} ${direction === "request" ? "narrowed" : "widened"}`);
    if (!typesOf(outer).includes("any") && difference(typesOf(inner), typesOf(outer)).length > 0) add("type");
    for (const keyword of ["format", "pattern", "const"]) {
      if (outer[keyword] !== undefined && inner[keyword] !== outer[keyword]) add(keyword);
    }
    for (const keyword of LOWER_BOUNDS) if (!isWithinBound(outer[keyword], inner[keyword], 1)) add(keyword);
    for (const keyword of UPPER_BOUNDS) if (!isWithinBound(outer[keyword], inner[keyword], -1)) add(keyword);
    if (outer.enum && (!inner.enum || difference(asList(inner.enum), asList(outer.enum)).length > 0))
      add("values");
    if (outer.additionalProperties === false && inner.additionalProperties !== false) add("other properties");
    for (const name of difference(asList(outer.required), asList(inner.required))) {
      this.#add(`${at}.${name}`, direction === "request" ? "newly required" : "no longer always there");
    }
    if (!isEqual(was.default, is.default)) this.#add(at, "default changed");
    for (const [name, property] of Object.entries(asObject(was.properties))) {
      const now = asObject(is.properties)[name];
      if (now) this.#compareSchema(`${at}.${name}`, property, now, direction);
      else this.#add(`${at}.${name}`, "removed");
    }
    if (was.items || is.items) this.#compareSchema(`${at}[]`, was.items, is.items, direction);
  }

  /** An open enumeration: known values, and any other text that matches the schema. */
  #compareOpen(at: string, before: Json, after: Json, direction: Direction): void {
    const open = (schema: Json) =>
      asList(schema.anyOf)
        .map(asObject)
        .filter((branch) => !branch.enum);
    const [was, is] = [open(before), open(after)];
    if (was.length !== 1 || is.length !== 1) this.#add(at, "alternatives changed");
    else this.#compareSchema(at, was[0], is[0], direction);
  }

  #add(at: string, what: string): void {
    this.found.push(`${at}: ${what}`);
  }

  #old = (part: unknown) => resolve(this.#older, part);
  #new = (part: unknown) => resolve(this.#newer, part);
}

const knownValues = (schema: Json): unknown[] => [
  ...asList(schema.enum),
  ...asList(schema.anyOf).flatMap((branch) => asList(asObject(branch).enum)),
];

/** Whether every value that the inner schema accepts is within the bound of the outer schema. */
function isWithinBound(outer: unknown, inner: unknown, sign: 1 | -1): boolean {
  if (outer === undefined) return true;
  return inner !== undefined && sign * Number(inner) >= sign * Number(outer);
}

function resolve(document: Json, part: unknown): Json {
  const { $ref } = asObject(part);
  if (typeof $ref !== "string") return asObject(part);
  const names = $ref.slice(2).split("/");
  return resolve(
    document,
    names.reduce<unknown>((inner, name) => asObject(inner)[name], document),
  );
}
