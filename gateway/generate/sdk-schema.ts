import { ERRORS } from "../../server/errors.js";
import { FORM_STATUSES } from "../../server/forms/status.js";
import type { Json } from "../openapi/tidy.js";
import { type Property, propertiesOf } from "./object-schemas.js";
import { wrap } from "./wrap.js";

/** Returns `sdk/src/schema.ts`: the types of resources and inputs, the statuses and the error codes. */
export const sdkSchema = (document: Json): string => `\
// Written by \`npm run generate\`.

/** The statuses that this version of the SDK knows. \`UNKNOWN\` stands for any status that the service does not list. */
export const FORM_STATUSES = [
${FORM_STATUSES.map((status) => `  "${status}",`).join("\n")}
] as const;

/** A status that this version of the SDK knows. */
export type KnownFormStatus = (typeof FORM_STATUSES)[number];

/** A form's status. Later versions of the service may add values: treat unknown ones as \`UNKNOWN\`. */
export type FormStatus = KnownFormStatus | (string & {});

/** The codes of the error envelope that this version of the SDK has a class for. */
export type KnownErrorCode =
${Object.keys(ERRORS)
  .map((code) => `  | "${code}"`)
  .join("\n")};

/** A guest-registration form. Fields that later versions of the service add are kept. */
export interface FormV1 {
${propertiesOf(document, "FormV1").map(outputField).join("\n")}
}

/** A listing. Fields that later versions of the service add are kept. */
export interface Listing {
${propertiesOf(document, "Listing").map(outputField).join("\n")}
}

/** Input of create and update. */
export interface FormInput {
${propertiesOf(document, "FormInput").map(inputField).join("\n")}
}
`;

const TYPES: Record<string, string> = {
  integer: "number",
  number: "number",
  boolean: "boolean",
  string: "string",
};

const outputField = (property: Property) =>
  field(property, `${property.name}: ${typeOf(property)}${property.isNullable ? " | null" : ""};`);

/** Null counts as absent. */
const inputField = (property: Property) =>
  field(
    property,
    property.isNullable
      ? `${property.name}?: ${typeOf(property)} | null | undefined;`
      : `${property.name}: ${property.format === "date-time" ? "Date | string" : typeOf(property)};`,
  );

const field = ({ description }: Property, declaration: string) => `${comment(description)}\n  ${declaration}`;

function typeOf({ name, type, isEnumerated }: Property): string {
  const known = isEnumerated ? "FormStatus" : TYPES[type];
  if (!known) throw new Error(`${name} has the type ${type}, which the SDK has no type for`);
  return known;
}

function comment(description: string): string {
  const [line = "", ...more] = wrap(description, "   *");
  return more.length === 0 ? `  /**${line.slice(4)} */` : ["  /**", line, ...more, "   */"].join("\n");
}
