import { isDeepStrictEqual } from "node:util";
import { z } from "zod";
import { EXAMPLE_FORM_ID } from "../../server/constants.js";
import { OPERATIONS, type Operation } from "../operations/operations.js";
import { headerRefs } from "./parts.js";
import type { Json } from "./tidy.js";

/** The generated success response of an operation, with its real status and headers. */
export function successResponse(operation: Operation, generated: Json): Record<string, Json> {
  const { description, content } = generated;
  const own = Object.entries(headersOf(operation)).map(([name, header]) => {
    const isShared = isDeepStrictEqual(COMPONENTS[name], header);
    return [name, isShared ? { $ref: `#/components/headers/${name}` } : header];
  });
  const headers = { ...Object.fromEntries(own), ...headerRefs(COMMON) };
  return { [operation.status]: { description, headers, content } };
}

const COMMON = ["X-Correlation-Id", "RateLimit", "RateLimit-Policy"];

/** The headers of an operation's success response, without those that every response has. */
function headersOf({ location, responseHeaders }: Operation): Record<string, Json> {
  const declared = Object.entries(responseHeaders).map(([name, schema]) => {
    const { $schema: _, description, example, ...json } = z.toJSONSchema(schema);
    const required = !z.safeParse(schema, undefined).success;
    const header = { description, ...(required && { required }), schema: json };
    return [name, example === undefined ? header : { ...header, example }] as const;
  });
  return { ...(location && { Location: locationHeader(location) }), ...Object.fromEntries(declared) };
}

function locationHeader(template: string): Json {
  const example = template.replace(/\{\w+\}/g, EXAMPLE_FORM_ID);
  return {
    description: "Path of the resource.",
    required: true,
    schema: { type: "string", format: "uri-reference", maxLength: example.length },
    example,
  };
}

/** One header per name, the first one declared. A different header of the same name stays inline in its operation. */
const COMPONENTS: Record<string, Json> = {};
for (const operation of OPERATIONS) {
  for (const [name, header] of Object.entries(headersOf(operation))) COMPONENTS[name] ??= header;
}

/** The header components of the operations. */
export const headerComponents: Readonly<Record<string, Json>> = COMPONENTS;
