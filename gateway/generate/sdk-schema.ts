import { ERRORS } from "../../server/errors.js";
import { FORM_STATUSES } from "../../server/forms/status.js";
import { wrap } from "../cli/help.js";
import { componentFields, type Field, type OpenApiDocument, typesOf, valuesOf } from "../openapi/read.js";

/** Returns `sdk/src/schema.ts`: the types of resources and inputs, the statuses and the error codes. */
export const sdkSchema = (document: OpenApiDocument): string => `\
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
${componentFields(document, "FormV1").map(outputField).join("\n")}
}

/** A listing. Fields that later versions of the service add are kept. */
export interface Listing {
${componentFields(document, "Listing").map(outputField).join("\n")}
}

/** Input of create and update. */
export interface FormInput {
${componentFields(document, "FormInput").map(inputField).join("\n")}
}
`;

const TYPES: Record<string, string> = {
  integer: "number",
  number: "number",
  boolean: "boolean",
  string: "string",
};

const outputField = (field: Field) =>
  declare(field, `${field.name}: ${typeOf(field)}${isNullable(field) ? " | null" : ""};`);

/** Null counts as absent. */
const inputField = (field: Field) =>
  declare(
    field,
    isNullable(field)
      ? `${field.name}?: ${typeOf(field)} | null | undefined;`
      : `${field.name}: ${field.schema.format === "date-time" ? "Date | string" : typeOf(field)};`,
  );

const isNullable = ({ schema }: Field) => typesOf(schema).includes("null");

function typeOf({ name, schema }: Field): string {
  const [type = ""] = typesOf(schema);
  const known = valuesOf(schema).length > 0 ? "FormStatus" : TYPES[type];
  if (!known) throw new Error(`${name} has the type ${type}, which the SDK has no type for`);
  return known;
}

const MAX_WIDTH = 110;

/** A declaration below its comment. */
function declare({ description = "" }: Field, declaration: string): string {
  const [line = "", ...more] = wrap(description, MAX_WIDTH - "   * ".length).split("\n");
  const comment =
    more.length === 0 ? [`  /** ${line} */`] : ["  /**", ...[line, ...more].map((part) => `   * ${part}`), "   */"];
  return [...comment, `  ${declaration}`].join("\n");
}
