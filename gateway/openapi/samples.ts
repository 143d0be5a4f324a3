import { z } from "zod";
import type { Operation } from "../operations/operations.js";
import type { Json } from "./tidy.js";

/** The `x-codeSamples` of an operation. They use the variables GUEST_FORMS_BASE_URL and GUEST_FORMS_API_KEY. */
export function codeSamples(operation: Operation): Json[] {
  const sample = sampleOf(operation);
  return [
    { lang: "bash", label: "curl", source: curl(operation, sample) },
    { lang: "typescript", label: "TypeScript SDK", source: typescript(operation, sample) },
  ];
}

type Sample = ReturnType<typeof sampleOf>;

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

function curl({ method, path, params, inputSource }: Operation, sample: Sample): string {
  let url = `$GUEST_FORMS_BASE_URL${path}`;
  for (const [index, name] of params.entries()) url = url.replace(`{${name}}`, String(sample.params[index]));
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(sample.fields)) query.set(name, String(value));
  if (inputSource === "query" && query.size > 0) url += `?${query}`;
  // curl sends POST if there is a body, otherwise GET.
  const flag = method === (inputSource === "body" ? "POST" : "GET") ? "" : `-X ${method} `;
  const lines = [`curl -sS ${flag}"${url}"`, '-H "Authorization: Bearer $GUEST_FORMS_API_KEY"'];
  for (const [name, value] of sample.headers) lines.push(`-H "${name}: ${value}"`);
  if (inputSource === "body") {
    lines.push('-H "Content-Type: application/json"');
    lines.push(`-d '${JSON.stringify(sample.fields, null, 2).replaceAll("\n", "\n  ")}'`);
  }
  return lines.join(" \\\n  ");
}

const typescript = (operation: Operation, sample: Sample): string =>
  [
    'import { GuestForms } from "@guest-forms/sdk";',
    "",
    "const apiKey = process.env.GUEST_FORMS_API_KEY;",
    "const baseUrl = process.env.GUEST_FORMS_BASE_URL;",
    "const client = new GuestForms({ apiKey, baseUrl });",
    ...(CALLS[operation.name] ?? plainCall(operation))(argumentsOf(operation, sample)),
  ].join("\n");

/** Lines that call a method of the SDK and print of the result what `printed` names. */
const callOf = (noun: string, method: string, printed: string) => (args: string) => [
  `const ${noun} = await client.${noun}s.${method}(${args});`,
  `console.log(${printed});`,
];

const loopOver = (noun: string, printed: string) => () => [
  `for await (const ${noun} of client.${noun}s.list({ limit: 20 })) {`,
  `  console.log(${printed});`,
  "}",
];

/** The SDK's method, such as `forms.retrieve`. */
export const sdkMethod = ({ name }: Operation): string => name.replace(/\.get$/, ".retrieve");

/** The SDK call and the use of its result, if different from `plainCall`. */
const CALLS: Record<string, (args: string) => string[]> = {
  "forms.create": (args) =>
    callOf("form", "create", "form.id, form.status")(`${args}, { idempotencyKey: "booking-4711" }`),
  "forms.update": callOf("form", "update", "form.checkOutDate"),
  "forms.list": loopOver("form", "form.id, form.checkInDate, form.status"),
  "forms.get": callOf("form", "retrieve", "form.status"),
  "listings.list": loopOver("listing", "listing.id, listing.title"),
  "listings.get": callOf("listing", "retrieve", "listing.title, listing.timezone"),
};

const plainCall = (operation: Operation) => (args: string) => [
  `const result = await client.${sdkMethod(operation)}(${args});`,
  "console.log(result);",
];

/** The path's parameters, then the query or body. */
function argumentsOf({ inputSource }: Operation, { params, fields }: Sample): string {
  const quoted = params.map((value) => JSON.stringify(value));
  return [...quoted, ...(inputSource ? [objectLiteral(fields)] : [])].join(", ");
}

const objectLiteral = (value: object) =>
  JSON.stringify(value, null, 2)
    .replace(/^( +)"(\w+)":/gm, "$1$2:")
    .replace(/(?<=[^,{])\n(?=\s*\})/g, ",\n");
