import { ERRORS, type ErrorCode, type ErrorEntry } from "../../server/errors.js";
import { ANY_ENDED_STATUS, FORM_STATUSES, STAGES, STATUS_MEANINGS } from "../../server/forms/status.js";
import { EVENTS } from "../../server/webhooks/event-schema.js";
import { listSettings } from "../cli/help.js";
import { componentFields, type Field, isPage, nameOf, type OpenApiDocument, refOf, typesOf } from "../openapi/read.js";
import { COMMON_CODES } from "../openapi/responses.js";
import { sdkMethod } from "../openapi/samples.js";
import { OPERATIONS, type Operation } from "../operations/operations.js";

/** Returns the generated parts of the documents, by name. */
export const markdownBlocks = (document: OpenApiDocument): Record<string, string> => ({
  operations: table(
    ["operation", "request", "key", "success"],
    OPERATIONS.map(({ method, path, isWrite, status, summary }) => [
      summary,
      code(`${method} ${path}`),
      isWrite ? "read-write" : "any",
      String(status),
    ]),
  ),
  methods: table(
    ["call", "request", "resolves to"],
    OPERATIONS.map((operation) => [
      code(`client.${sdkMethod(operation)}(${argumentsOf(operation)})`),
      code(`${operation.method} ${operation.path}`),
      code(resultOf(document, operation)),
    ]),
  ),
  input: fieldTable(componentFields(document, "FormUpdate"), "required", isRequired, "property"),

  form: fieldTable(componentFields(document, "FormV1")),
  listing: fieldTable(componentFields(document, "Listing")),
  stages: `\`\`\`text\n${STAGES.map((stage) => stage.join(" or ")).join(" → ")}\n\`\`\``,
  statuses: table(
    ["status", "meaning"],
    FORM_STATUSES.map((status) => [code(status), STATUS_MEANINGS[status]]),
  ),
  ended: `A form has ended if it is ${ANY_ENDED_STATUS}.`,
  errors: table(
    ["code", "status", "condition"],
    ERROR_FACTS.flatMap(([name, { status, condition, also = {} }]) => [
      [code(name), String(status), condition],
      ...Object.entries(also).map(([other, otherCondition]) => [code(name), other, otherCondition]),
    ]),
  ),
  retries: table(
    ["code", "status", "retry?"],
    ERROR_FACTS.map(([name, { status, retry }]) => [code(name), String(status), retry]),
  ),
  events: table(
    ["type", "sent when", "in `data`"],
    EVENTS.map((event) => {
      const type = event.shape.type.value;
      const names = Object.keys(event.shape.data.shape).map(code).join(", ");
      return [`[${code(type)}](/docs/reference#${type})`, event.meta()?.description ?? "", names || "nothing"];
    }),
  ),
  codes: table(
    ["operation", "codes"],
    OPERATIONS.map(({ summary, codes }) => [summary, codes.map(code).join(", ")]),
  ),
  commonCodes: `Any operation can also return ${COMMON_CODES.map(code).join(", ")}.`,
  bodyLimits: limits(["BODY_MAX_BYTES", "BODY_MAX_FIELDS", "BODY_MAX_DEPTH"]),
  holderLimits: limits(["DATABASE_CONNECTIONS_PER_HOLDER", "DATABASE_CONNECT_TIMEOUT_MS"]),
});

/** The parameters of an SDK method. */
function argumentsOf({ params, fields, inputSource }: Operation): string {
  const names = [...fields.keys()].filter((name) => !params.includes(name)).map((name) => `${name}?`);
  const input = { query: [`{ ${names.join(", ")} }?`], body: ["input"] };
  return [...params, ...(inputSource ? input[inputSource] : []), "options?"].join(", ");
}

/** The type of an SDK method's result. */
function resultOf({ paths, components }: OpenApiDocument, { path, verb, status }: Operation): string {
  const name = refOf(paths[path]?.[verb]?.responses[status]?.content);
  const schema = components.schemas[name] ?? {};
  return isPage(schema) ? `Page<${nameOf(schema.properties?.items?.items?.$ref ?? "")}>` : name || "void";
}

const ERROR_FACTS = Object.entries(ERRORS) as [ErrorCode, ErrorEntry][];

const code = (text: string) => `\`${text}\``;

const table = (head: string[], rows: string[][]) =>
  [head, head.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |`).join("\n");

const isNullable = ({ schema }: Field) => typesOf(schema).includes("null");
const isRequired = ({ required = false }: Field) => required;

/** A table of fields. The third column says whether `isTrue` is. */
const fieldTable = (fields: Field[], third = "nullable", isTrue = isNullable, first = "field") =>
  table(
    [first, "type", third, "meaning"],
    fields.map((field) => {
      const { name, schema, description = "" } = field;
      const [type = ""] = typesOf(schema);
      return [code(name), FORMATS[schema.format ?? ""] ?? type, isTrue(field) ? "yes" : "no", description];
    }),
  );

const FORMATS: Record<string, string> = {
  uuid: "string, UUID",
  "date-time": "string, instant",
  email: "string, email address",
};

/** The defaults of settings. */
const limits = (names: string[]) =>
  table(
    ["setting of the operator", "default", "meaning"],
    listSettings()
      .filter(({ name }) => names.includes(name))
      .map(({ name, description, defaultValue }) => [code(name), String(defaultValue), description]),
  );
