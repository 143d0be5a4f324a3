import { ERRORS, type ErrorCode, type ErrorEntry } from "../../server/errors.js";
import { FORM_STATUSES, STAGES, STATUS_MEANINGS } from "../../server/forms/status.js";
import { listSettings } from "../cli/settings-help.js";
import { COMMON_CODES } from "../openapi/responses.js";
import type { Json } from "../openapi/tidy.js";
import { OPERATIONS } from "../operations/operations.js";
import { type Property, propertiesOf } from "./object-schemas.js";

/** Returns the generated parts of the documents, by name. */
export const markdownBlocks = (document: Json): Record<string, string> => ({
  operations: table(
    ["operation", "request", "key", "success"],
    OPERATIONS.map(({ method, path, isWrite, status, summary }) => [
      summary,
      code(`${method} ${path}`),
      isWrite ? "read-write" : "any",
      String(status),
    ]),
  ),
  input: table(
    ["property", "type", "required", "meaning"],
    propertiesOf(document, "FormInput").map((property) => [
      code(property.name),
      typeOf(property),
      property.isNullable ? "no" : "yes",
      property.description,
    ]),
  ),
  form: fields(document, "FormV1"),
  listing: fields(document, "Listing"),
  stages: `\`\`\`text\n${STAGES.map((stage) => stage.join(" or ")).join(" → ")}\n\`\`\``,
  statuses: table(
    ["status", "meaning"],
    FORM_STATUSES.map((status) => [code(status), STATUS_MEANINGS[status]]),
  ),
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
  codes: table(
    ["operation", "codes"],
    OPERATIONS.map(({ summary, codes }) => [summary, codes.map(code).join(", ")]),
  ),
  commonCodes: `Any operation can also return ${COMMON_CODES.map(code).join(", ")}.`,
  bodyLimits: limits(["BODY_MAX_BYTES", "BODY_MAX_FIELDS", "BODY_MAX_DEPTH"]),
});

const ERROR_FACTS = Object.entries(ERRORS) as [ErrorCode, ErrorEntry][];

const code = (text: string) => `\`${text}\``;

const table = (head: string[], rows: string[][]) =>
  [head, head.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |`).join("\n");

const fields = (document: Json, schema: string) =>
  table(
    ["field", "type", "nullable", "meaning"],
    propertiesOf(document, schema).map((property) => [
      code(property.name),
      typeOf(property),
      property.isNullable ? "yes" : "no",
      property.description,
    ]),
  );

const FORMATS: Record<string, string> = {
  uuid: "string, UUID",
  "date-time": "string, instant",
  email: "string, email address",
};

const typeOf = ({ type, format = "" }: Property) => FORMATS[format] ?? type;

/** The defaults of settings. */
const limits = (names: string[]) =>
  table(
    ["setting of the operator", "default", "meaning"],
    listSettings()
      .filter(({ name }) => names.includes(name))
      .map(({ name, description, defaultValue }) => [code(name), String(defaultValue), description]),
  );
