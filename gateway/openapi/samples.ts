import type { Operation } from "../operations/operations.js";
import { toJavaScript } from "./literals.js";
import { curl, javascript, php, python, type Sample, sampleOf } from "./request-samples.js";
import type { Json } from "./tidy.js";

/**
 * The `x-codeSamples` of an operation. They use the variables GUEST_FORMS_BASE_URL and GUEST_FORMS_API_KEY, and fail if the
 * status is not 2xx.
 */
export function codeSamples(operation: Operation): Json[] {
  const sample = sampleOf(operation);
  return [
    { lang: "bash", label: "curl", source: curl(operation, sample) },
    { lang: "javascript", label: "JavaScript", source: javascript(operation, sample) },
    { lang: "typescript", label: "TypeScript SDK", source: typescript(operation, sample) },
    { lang: "python", label: "Python", source: python(operation, sample) },
    { lang: "php", label: "PHP", source: php(operation, sample) },
  ];
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
  return [...quoted, ...(inputSource ? [toJavaScript(JSON.stringify(fields, null, 2))] : [])].join(", ");
}
