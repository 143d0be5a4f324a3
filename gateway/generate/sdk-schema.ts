import { ERRORS, type ErrorEntry } from "../../server/errors.js";
import { ENDED_STATUSES, FORM_STATUSES } from "../../server/forms/status.js";
import { wrap } from "../cli/help.js";
import {
  componentFields,
  eventsOf,
  type Field,
  fieldsOf,
  isPage,
  nameOf,
  type OpenApiDocument,
  operationsOf,
  refOf,
  type Schema,
  typesOf,
  valuesOf,
} from "../openapi/read.js";

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

${resources(document).join("\n\n")}

/** What \`client.forms.list\` filters by. All given filters must match. */
export interface FormFilters {
${filtersOf(document).map(inputField).join("\n")}
}
`;

/** Returns `sdk/src/events.ts`: the types of the events that webhooks send. */
export const sdkEvents = (document: OpenApiDocument): string => `\
// Written by \`npm run generate\`.
import type { FormStatus, FormV1 } from "./schema.js";

${declareEvents(document)}

/** The events that this version of the SDK knows, discriminated by \`type\`. Later versions of the service may send others. */
export type WebhookEvent =
${eventsOf(document)
  .map(({ name }) => `  | ${name}`)
  .join("\n")};
`;

/** The events. The times of the first one are those of each event that describes them alike. */
function declareEvents(document: OpenApiDocument): string {
  const events = eventsOf(document);
  const isTime = ({ schema }: Field) => schema.format === "date-time";
  const times = events.slice(0, 1).flatMap(({ schema }) => fieldsOf(schema).filter(isTime).map(outputField));
  const ownField = (field: Field) => [outputField(field)].filter((declaration) => !times.includes(declaration));
  return [
    `/** When a change was made, and when it was sent. */\ninterface Times {\n${times.join("\n")}\n}`,
    ...events.map(({ name, schema }) => declareInterface(`${name} extends Times`, schema, ownField)),
  ].join("\n\n");
}

/** Returns `sdk/src/fake-schema.ts`: what the fake service in `sdk/src/testing.ts` knows of the resources and inputs. */
export const sdkFakeSchema = (document: OpenApiDocument): string => `\
// Written by \`npm run generate\`.
import type { FormV1, KnownErrorCode, Listing } from "./schema.js";

/** The statuses in which a booking is over. */
export const ENDED_STATUSES: readonly string[] = ${JSON.stringify(ENDED_STATUSES)};

/** The code of a status that has only one. */
export const CODES: Record<number, KnownErrorCode> = ${JSON.stringify(codesByStatus())};

export const NEW_FORM: FormV1 = ${JSON.stringify(newResource(document, "FormV1"))};

export const NEW_LISTING: Listing = ${JSON.stringify(newResource(document, "Listing"))};

/** Keywords of JSON Schema. */
export interface FieldSchema {
  type: string;
  isRequired: boolean;
  isNullable: boolean;
  const?: string | boolean;
  enum?: string[];
  format?: string;
  minimum?: number;
  maximum?: number;
  maxLength?: number;
  pattern?: string;
}

/** The fields of a create's body. */
export const BODY_FIELDS: Record<string, FieldSchema> = ${JSON.stringify(bodyFields(document, "FormInput"))};

/** The fields of an update's body. */
export const UPDATE_FIELDS: Record<string, FieldSchema> = ${JSON.stringify(bodyFields(document, "FormUpdate"))};

/** The filters of the list of forms. */
export const FILTER_FIELDS: Record<string, FieldSchema> = ${JSON.stringify(fieldSchemas(filtersOf(document)))};
`;

/** The parameters of the list of forms, except those of the page. */
const filtersOf = (document: OpenApiDocument): Field[] =>
  operationsOf(document)
    .filter(({ operation }) => operation.operationId === "listForms")
    .flatMap(({ operation }) => operation.parameters ?? [])
    .filter((parameter) => parameter.in === "query" && !["limit", "cursor"].includes(parameter.name));

/** Without the codes of 400, which say what is wrong, and of server errors. */
function codesByStatus(): Record<number, string> {
  const pairs = Object.entries<ErrorEntry>(ERRORS).flatMap(([code, { status, also = {} }]) =>
    [status, ...Object.keys(also).map(Number)].map((each) => [each, code] as const),
  );
  return Object.fromEntries(pairs.filter(([status]) => status > 400 && status < 500));
}

/** The examples of the fields, and null where that is allowed. */
const newResource = (document: OpenApiDocument, name: string) =>
  Object.fromEntries(
    componentFields(document, name).map((field) => [field.name, isNullable(field) ? null : field.schema.example]),
  );

const bodyFields = (document: OpenApiDocument, name: string) => fieldSchemas(componentFields(document, name));

const fieldSchemas = (fields: Field[]) =>
  Object.fromEntries(
    fields.map((field) => {
      const { const: only, enum: values, format, minimum, maximum, maxLength, pattern } = field.schema;
      const limits = { const: only, enum: values, format, minimum, maximum, maxLength, pattern };
      const [type] = typesOf(field.schema);
      return [field.name, { type, isRequired: field.required === true, isNullable: isNullable(field), ...limits }];
    }),
  );

/** The objects that operations take and return, except pages and errors, which the SDK has classes for. */
function resources(document: OpenApiDocument): string[] {
  const bodies = operationsOf(document).map(({ operation }) => refOf(operation.requestBody?.content));
  const events = eventsOf(document).map(({ name }) => name);
  return Object.entries(document.components.schemas).flatMap(([name, schema]) => {
    if (/^(ErrorEnvelope|FieldError)$/.test(name) || isPage(schema) || events.includes(name)) return [];
    return [declareInterface(name, schema, bodies.includes(name) ? inputField : outputField)];
  });
}

function declareInterface(name: string, schema: Schema, declareField: (field: Field) => string | string[]): string {
  const comment = schema.description?.replace(/New fields may be added: .*/, KEPT);
  return `/** ${comment} */\nexport interface ${name} {\n${fieldsOf(schema).flatMap(declareField).join("\n")}\n}`;
}

const KEPT = "Fields that later versions of the service add are kept.";

const TYPES: Record<string, string> = {
  integer: "number",
  number: "number",
  boolean: "boolean",
  string: "string",
};

const outputField = (field: Field) =>
  declare(field, `${field.name}: ${typeOf(field)}${isNullable(field) ? " | null" : ""};`);

function inputField(field: Field): string {
  const values = field.schema.enum?.map((value) => JSON.stringify(value)) ?? [];
  const type = field.schema.format === "date-time" ? "Date | string" : values.join(" | ") || typeOf(field);
  const orNull = isNullable(field) ? " | null" : "";
  return declare(
    field,
    field.required ? `${field.name}: ${type}${orNull};` : `${field.name}?: ${type}${orNull} | undefined;`,
  );
}

const isNullable = ({ schema }: Field) => typesOf(schema).includes("null");

function typeOf({ name, schema }: Field): string {
  const [type = ""] = typesOf(schema);
  if (schema.$ref) return nameOf(schema.$ref);
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.items) return `${typeOf({ name, schema: schema.items })}[]`;
  if (schema.properties) return declareObject(schema);
  const known = valuesOf(schema).length > 0 ? "FormStatus" : TYPES[type];
  if (!known) throw new Error(`${name} has the type ${type}, which the SDK has no type for`);
  return known;
}

function declareObject(schema: Schema): string {
  const fields = fieldsOf(schema).map(outputField);
  return fields.length > 0 ? `{\n${fields.join("\n")}\n}` : "Record<string, never>";
}

const MAX_WIDTH = 110;

/** A declaration below its comment. */
function declare({ description = "" }: Field, declaration: string): string {
  const [line = "", ...more] = wrap(description, MAX_WIDTH - "   * ".length).split("\n");
  const comment =
    more.length === 0 ? [`  /** ${line} */`] : ["  /**", ...[line, ...more].map((part) => `   * ${part}`), "   */"];
  return [...comment, `  ${declaration}`].join("\n");
}
