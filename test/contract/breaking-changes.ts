type Json = Record<string, unknown>;

/** What clients do not rely on. */
const DESCRIPTIVE = /^(description|summary|tags|example|examples|x-.+)$/;
/** Keywords that restrict a value. */
const RESTRICTION = /^(m(in|ax)\w+|pattern|format|enum|const|required|additionalProperties)$/;
/** Lists of which a client that sends requests, or one that reads responses, needs every element of before. */
const KEPT = { request: /^(enum|type)$/, response: /^(enum|required)$/ };

/**
 * Returns the changes of a newer OpenAPI document that break clients of an older one. Operations, events, optional parameters and
 * request fields, response fields and headers, error statuses and codes, and values of enumerations may be added; restrictions
 * of requests may become weaker, promises of responses stronger.
 */
export function breakingChanges(older: Json, newer: Json): string[] {
  const found: string[] = [];
  const compare = (at: string, before: unknown, after: unknown, side: "request" | "response"): void => {
    const [was, is] = [resolve(older, before), resolve(newer, after)];
    const keyword = at.split(" ").at(-1) ?? "";
    if (is === undefined) found.push(`${at}: removed`);
    else if (keyword === "anyOf" || keyword === "security") compareEach(at, { ...list(was) }, { ...list(is) }, side);
    else if (keyword === "parameters") compareEach(at, parametersByName(was), parametersByName(is), "request");
    else if (Array.isArray(was) || Array.isArray(is)) {
      const [needed, given] = KEPT[side].test(keyword) ? [list(was), list(is)] : [list(is), list(was)];
      for (const one of needed) if (!given.includes(one)) found.push(`${at}: ${one} added or removed`);
    } else if (isObject(was) && isObject(is)) compareEach(at, was, is, keyword === "responses" ? "response" : side);
    else if (was !== is && !isWeaker(keyword, was, is, side)) found.push(`${at}: changed`);
  };
  const compareEach = (at: string, was: Json, is: Json, side: "request" | "response") => {
    for (const [name, value] of Object.entries(was)) {
      // The examples of an error response are named by the codes that it can carry.
      if (name === "examples") compareEach(`${at} code`, namesOf(value), namesOf(is.examples), side);
      else if (!DESCRIPTIVE.test(name) || at.endsWith("properties")) compare(`${at} ${name}`, value, is[name], side);
    }
    for (const [name, value] of Object.entries(is).filter(([name]) => !(name in was))) {
      const isRestricted =
        side === "request" && RESTRICTION.test(name) && value !== false && !at.endsWith("properties");
      const isRequired = at.endsWith("parameters") && isObject(value) && value.required === true;
      const isOtherSuccess = at.endsWith("responses") && /^[123]/.test(name);
      const isAlternative = /(anyOf|security)$/.test(at);
      if (isRestricted || isRequired || isOtherSuccess || isAlternative) found.push(`${at} ${name}: added`);
    }
  };
  compare("security", older.security, newer.security, "request");
  const schemes = (document: Json) => resolve(document, { $ref: "#/components/securitySchemes" });
  compare("security schemes", schemes(older), schemes(newer), "request");
  compareEach("", older.paths as Json, newer.paths as Json, "request");
  // The receiver of a webhook request reads it, as a client reads a response.
  compareEach("webhooks", (older.webhooks ?? {}) as Json, (newer.webhooks ?? {}) as Json, "response");
  return found;
}

const isObject = (value: unknown): value is Json => typeof value === "object" && value !== null;
const list = (value: unknown): unknown[] => (Array.isArray(value) ? value : [value]);
const namesOf = (examples: unknown): Json =>
  Object.fromEntries(Object.keys(examples ?? {}).map((name) => [name, name]));
const parametersByName = (parameters: unknown): Json =>
  Object.fromEntries((parameters as Json[]).map((one) => [`${one.in} ${one.name}`, one]));

/** Whether the change of a restriction only admits more values of a request. */
const isWeaker = (keyword: string, was: unknown, is: unknown, side: string): boolean =>
  side === "request" &&
  (/^max/.test(keyword) ? Number(is) > Number(was) : /^min/.test(keyword) ? Number(is) < Number(was) : is === false);

function resolve(document: Json, part: unknown): unknown {
  if (!isObject(part) || typeof part.$ref !== "string") return part;
  const names = part.$ref.slice(2).split("/");
  return resolve(
    document,
    names.reduce<unknown>((inner, name) => (inner as Json)[name], document),
  );
}
