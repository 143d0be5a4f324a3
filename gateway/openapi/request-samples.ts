import { z } from "zod";
import type { Operation } from "../operations/operations.js";
import { toJavaScript, toPhp, toPython } from "./literals.js";

export type Sample = ReturnType<typeof sampleOf>;

/** The request of a sample: the operation's own example, or the examples of its fields. */
export function sampleOf({ params, fields, example, requestHeaders }: Operation) {
  const examples = [...fields].flatMap(([name, { example }]) =>
    example === undefined || params.includes(name) ? [] : [[name, example] as const],
  );
  return {
    params: params.map((name) => fields.get(name)?.example ?? `{${name}}`),
    /** The query or body. */
    fields: example ?? Object.fromEntries(examples),
    headers: Object.entries(requestHeaders).flatMap(([name, schema]) => {
      const { example } = z.toJSONSchema(schema);
      return example === undefined ? [] : [[name, example] as const];
    }),
  };
}

// Samples that send the request themselves, in each language with what it brings along.

/** Path and query of the request. */
function targetOf({ path, params, inputSource }: Operation, sample: Sample): string {
  let target: string = path;
  for (const [index, name] of params.entries()) target = target.replace(`{${name}}`, String(sample.params[index]));
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(sample.fields)) query.set(name, String(value));
  return inputSource === "query" && query.size > 0 ? `${target}?${query}` : target;
}

export function curl(operation: Operation, sample: Sample): string {
  const { method, inputSource } = operation;
  // curl sends POST if there is a body, otherwise GET.
  const flag = method === (inputSource === "body" ? "POST" : "GET") ? "" : `-X ${method} `;
  const url = `$GUEST_FORMS_BASE_URL${targetOf(operation, sample)}`;
  const lines = [`curl -sS --fail-with-body ${flag}"${url}"`, '-H "Authorization: Bearer $GUEST_FORMS_API_KEY"'];
  for (const [name, value] of headersOf(operation, sample)) lines.push(`-H "${name}: ${value}"`);
  if (inputSource === "body") {
    lines.push(`-d '${JSON.stringify(sample.fields, null, 2).replaceAll("\n", "\n  ")}'`);
  }
  return lines.join(" \\\n  ");
}

/** Headers of the request, except the key's. */
const headersOf = ({ inputSource }: Operation, { headers }: Sample): [name: string, value: unknown][] => [
  ...(inputSource === "body" ? [["Content-Type", "application/json"] as [string, string]] : []),
  ...headers.map(([name, value]): [string, unknown] => [name, value]),
];

const unlessGet = ({ method }: Operation, line: string) => (method === "GET" ? [] : [line]);

const indent = (spaces: number, lines: readonly string[]) => lines.map((line) => " ".repeat(spaces) + line);

/** Lines of the body, as a literal between two texts; none if the operation has no body. */
function bodyLines(
  { inputSource }: Operation,
  { fields }: Sample,
  [before, spaces, toLiteral, after]: [string, number, (json: string) => string, string],
): string[] {
  if (inputSource !== "body") return [];
  return `${before}${toLiteral(JSON.stringify(fields, null, spaces))}${after}`.split("\n");
}

export const javascript = (operation: Operation, sample: Sample): string =>
  [
    `const response = await fetch(process.env.GUEST_FORMS_BASE_URL + ${JSON.stringify(targetOf(operation, sample))}, {`,
    ...indent(2, [
      ...unlessGet(operation, `method: "${operation.method}",`),
      "headers: {",
      '  Authorization: "Bearer " + process.env.GUEST_FORMS_API_KEY,',
      ...headersOf(operation, sample).map(([name, value]) => `  "${name}": "${value}",`),
      "},",
      ...bodyLines(operation, sample, ["body: JSON.stringify(", 2, toJavaScript, "),"]),
    ]),
    "});",
    'if (!response.ok) throw new Error(response.status + " " + (await response.text()));',
    "console.log(await response.json());",
  ].join("\n");

export const python = (operation: Operation, sample: Sample): string =>
  [
    "import json, os, urllib.error, urllib.request",
    "",
    "request = urllib.request.Request(",
    ...indent(4, [
      `os.environ["GUEST_FORMS_BASE_URL"] + ${JSON.stringify(targetOf(operation, sample))},`,
      ...unlessGet(operation, `method="${operation.method}",`),
      "headers={",
      '    "Authorization": "Bearer " + os.environ["GUEST_FORMS_API_KEY"],',
      ...headersOf(operation, sample).map(([name, value]) => `    "${name}": "${value}",`),
      "},",
      ...bodyLines(operation, sample, ["data=json.dumps(", 4, toPython, ").encode(),"]),
    ]),
    ")",
    "try:",
    "    with urllib.request.urlopen(request, timeout=30) as response:",
    "        print(json.load(response))",
    "except urllib.error.HTTPError as error:",
    '    raise SystemExit(f"{error.code} {error.read().decode()}")',
  ].join("\n");

export const php = (operation: Operation, sample: Sample): string =>
  [
    "<?php",
    '$context = stream_context_create(["http" => [',
    ...indent(4, [
      ...unlessGet(operation, `"method" => "${operation.method}",`),
      '"header" => [',
      '    "Authorization: Bearer " . getenv("GUEST_FORMS_API_KEY"),',
      ...headersOf(operation, sample).map(([name, value]) => `    "${name}: ${value}",`),
      "],",
      ...bodyLines(operation, sample, ['"content" => json_encode(', 4, toPhp, "),"]),
      '"ignore_errors" => true,',
      '"timeout" => 30,',
    ]),
    "]]);",
    `$response = fopen(getenv("GUEST_FORMS_BASE_URL") . ${JSON.stringify(targetOf(operation, sample))}, "r", false, $context);`,
    '[, $status] = explode(" ", stream_get_meta_data($response)["wrapper_data"][0]);',
    "$body = stream_get_contents($response);",
    'if ($status >= 300) throw new Exception("$status $body");',
    "print_r(json_decode($body, true, flags: JSON_THROW_ON_ERROR));",
  ].join("\n");
