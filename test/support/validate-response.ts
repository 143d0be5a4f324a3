import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import committed from "../../gateway/openapi/openapi.json" with { type: "json" };

interface Described {
  headers?: Record<string, Ref | Header>;
  content?: { "application/json": { schema: object; examples?: Record<string, unknown> } };
}
interface Header {
  required?: boolean;
  schema: { type?: string };
}
interface Ref {
  $ref: string;
}
/** Headers as node:http returns them. */
type Headers = Readonly<Record<string, string | string[] | undefined>>;
interface Document {
  paths: Record<string, Record<string, { responses: Record<string, Ref | Described> }>>;
  webhooks: Record<string, unknown>;
  components: { schemas: Record<string, Schema> };
}
interface Schema {
  properties?: Record<string, Schema>;
  additionalProperties?: boolean;
}

const document = committed as unknown as Document;

// Clients must ignore unknown fields, but the server must not send any.
const strictDocument = structuredClone(document);
for (const schema of Object.values(strictDocument.components.schemas)) {
  schema.additionalProperties = false;
  // The `data` of an event.
  for (const inner of Object.values(schema.properties ?? {})) if (inner.properties) inner.additionalProperties = false;
}

const ajv = new Ajv2020({ strict: false, allErrors: true });
addFormats.default(ajv);
// A format of OpenAPI, which Ajv does not know. The schemas have the same bounds.
ajv.addFormat("int32", true);
ajv.addSchema(strictDocument, "document");

const compiled = new Map<string, ValidateFunction>();
function validatorOf(pointer: string): ValidateFunction {
  const known = compiled.get(pointer) ?? ajv.compile({ $ref: `document${pointer}` });
  compiled.set(pointer, known);
  return known;
}

function resolve<Value extends object>(pointer: string, value: Value | Ref): { pointer: string; value: Value } {
  if (!("$ref" in value)) return { pointer, value };
  const names = value.$ref.slice(2).split("/");
  const target = names.reduce<unknown>((part, name) => (part as Record<string, unknown>)[name], document);
  return resolve(value.$ref, target as Value | Ref);
}

const escapePointer = (name: string) => encodeURIComponent(name.replaceAll("~", "~0").replaceAll("/", "~1"));

const TEMPLATES = Object.keys(document.paths).map((template) => ({
  template,
  pattern: new RegExp(`^${template.replaceAll(/\{\w+\}/g, "[^/]+")}$`),
}));

/** Whether the HTTP parser rejected the request. No operation documents these responses. */
const isParserError = (body: unknown) =>
  (body as { errors?: { field: string }[] } | undefined)?.errors?.some(({ field }) => field === "request");

/**
 * Throws unless the document describes this response: its status, its headers and every field of its body. `path` may
 * have a query, names of headers are in lower case, and `body` is the parsed JSON, undefined for HEAD. `absentFields` are not in
 * the responses of an earlier version.
 */
export function validateResponse(
  method: string,
  path: string,
  status: number,
  headers: Headers,
  body: unknown,
  absentFields: readonly string[] = [],
): void {
  const { template } = TEMPLATES.find(({ pattern }) => pattern.test(path.split("?")[0] ?? "")) ?? {};
  const verb = (method === "HEAD" ? "GET" : method).toLowerCase();
  const operation = template === undefined ? undefined : document.paths[template]?.[verb];
  const throwIfAny = (faults: string[]) => {
    if (faults.length > 0) throw new Error(`${method} ${path}: ${status} is not as documented: ${faults.join("; ")}`);
  };
  if (!template || !operation || isParserError(body)) {
    // Unknown paths and methods have only the error envelope. OPTIONS has no body.
    if (status >= 400 && body !== undefined) throwIfAny(findFaults("#/components/schemas/ErrorEnvelope", body));
    return;
  }
  const described = operation.responses[String(status)];
  if (!described) throw new Error(`${method} ${path}: ${status} is not documented`);
  const at = `#/paths/${escapePointer(template)}/${verb}/responses/${status}`;
  const { pointer, value } = resolve<Described>(at, described);
  const faults = findHeaderFaults(pointer, value, headers);
  const content = value.content?.["application/json"];
  if (content && method !== "HEAD") {
    faults.push(...findFaults(`${pointer}/content/${escapePointer("application/json")}/schema`, body, absentFields));
    const { code } = (body ?? {}) as { code?: string };
    if (content.examples && !Object.keys(content.examples).includes(String(code))) faults.push(`code ${code}`);
  }
  throwIfAny(faults);
}

/** Throws unless the document describes this body of a webhook request, with every field. */
export function validateEvent(type: string, body: unknown): void {
  if (!(type in document.webhooks)) throw new Error(`The event ${type} is not documented`);
  const at = `#/webhooks/${escapePointer(type)}/post/requestBody/content/${escapePointer("application/json")}/schema`;
  const faults = findFaults(at, body);
  if (faults.length > 0) throw new Error(`${type} is not as documented: ${faults.join("; ")}`);
}

function findFaults(pointer: string, value: unknown, absentFields: readonly string[] = []): string[] {
  const validate = validatorOf(pointer);
  if (validate(value)) return [];
  return (validate.errors ?? [])
    .filter(({ params }) => !absentFields.includes(params.missingProperty))
    .map(({ instancePath, message, params }) => `${instancePath} ${message} ${JSON.stringify(params)}`);
}

function findHeaderFaults(pointer: string, { headers = {} }: Described, sent: Headers): string[] {
  return Object.entries(headers).flatMap(([name, header]) => {
    const resolved = resolve<Header>(`${pointer}/headers/${escapePointer(name)}`, header);
    const text = sent[name.toLowerCase()]?.toString();
    if (text === undefined) return resolved.value.required ? [`no ${name}`] : [];
    const value = resolved.value.schema.type === "integer" ? Number(text) : text;
    return findFaults(`${resolved.pointer}/schema`, value).map((fault) => `${name}: ${fault}`);
  });
}
