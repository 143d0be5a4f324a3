import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
// An import, not a file that is read: the soak is bundled, and has the document in it.
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
/** As node:http reads them. */
type Headers = Readonly<Record<string, string | string[] | undefined>>;
interface Document {
  paths: Record<string, Record<string, { responses: Record<string, Ref | Described> }>>;
  components: { schemas: Record<string, Record<string, unknown>> };
}

const document = committed as unknown as Document;

// What clients must bear, the server must not do: a field that the document does not name is a fault here.
const closed = structuredClone(document);
for (const schema of Object.values(closed.components.schemas)) schema.additionalProperties = false;

const ajv = new Ajv2020({ strict: false, allErrors: true });
addFormats.default(ajv);
// OpenAPI's own; the bounds of the schemas say the same.
ajv.addFormat("int32", true);
ajv.addSchema(closed, "document");

const compiled = new Map<string, ValidateFunction>();
function validator(pointer: string): ValidateFunction {
  const known = compiled.get(pointer) ?? ajv.compile({ $ref: `document${pointer}` });
  compiled.set(pointer, known);
  return known;
}

function resolve<Value extends object>(
  pointer: string,
  value: Value | Ref,
): { pointer: string; value: Value } {
  if (!("$ref" in value)) return { pointer, value };
  const names = value.$ref.slice(2).split("/");
  const target = names.reduce<unknown>((part, name) => (part as Record<string, unknown>)[name], document);
  return resolve(value.$ref, target as Value | Ref);
}

const escaped = (name: string) => encodeURIComponent(name.replaceAll("~", "~0").replaceAll("/", "~1"));

const TEMPLATES = Object.keys(document.paths).map((template) => ({
  template,
  pattern: new RegExp(`^${template.replaceAll(/\{\w+\}/g, "[^/]+")}$`),
}));

/** What Node itself refuses, before there is an operation, is in the envelope and in no operation's description. */
const isRefusal = (body: unknown) =>
  (body as { errors?: { field: string }[] } | undefined)?.errors?.some(({ field }) => field === "request");

/**
 * Throws unless the document describes this response: its status, headers and body, and nothing else in the body.
 * `path` may have a query; names of headers are in lower case; `body` is the parsed JSON, undefined for HEAD.
 */
export function validateResponse(
  method: string,
  path: string,
  status: number,
  headers: Headers,
  body: unknown,
): void {
  const { template } = TEMPLATES.find(({ pattern }) => pattern.test(path.split("?")[0] ?? "")) ?? {};
  const verb = (method === "HEAD" ? "GET" : method).toLowerCase();
  const operation = template === undefined ? undefined : document.paths[template]?.[verb];
  const say = (faults: string[]) => {
    if (faults.length > 0)
      throw new Error(`${method} ${path}: ${status} is not as documented: ${faults.join("; ")}`);
  };
  if (!template || !operation || isRefusal(body)) {
    // Unknown paths, other methods: the envelope is all there is to hold. OPTIONS has no body.
    if (status >= 400 && body !== undefined) say(judge("#/components/schemas/Error", body));
    return;
  }
  const described = operation.responses[String(status)];
  if (!described) throw new Error(`${method} ${path}: ${status} is not documented`);
  const at = `#/paths/${escaped(template)}/${verb}/responses/${status}`;
  const { pointer, value } = resolve<Described>(at, described);
  const faults = judgeHeaders(pointer, value, headers);
  const content = value.content?.["application/json"];
  if (content && method !== "HEAD") {
    faults.push(...judge(`${pointer}/content/${escaped("application/json")}/schema`, body));
    const { code } = (body ?? {}) as { code?: string };
    if (content.examples && !Object.keys(content.examples).includes(String(code)))
      faults.push(`code ${code}`);
  }
  say(faults);
}

function judge(pointer: string, value: unknown): string[] {
  const validate = validator(pointer);
  if (validate(value)) return [];
  return (validate.errors ?? []).map(
    ({ instancePath, message, params }) => `${instancePath} ${message} ${JSON.stringify(params)}`,
  );
}

function judgeHeaders(pointer: string, { headers = {} }: Described, sent: Headers): string[] {
  return Object.entries(headers).flatMap(([name, header]) => {
    const resolved = resolve<Header>(`${pointer}/headers/${escaped(name)}`, header);
    const text = sent[name.toLowerCase()]?.toString();
    if (text === undefined) return resolved.value.required ? [`no ${name}`] : [];
    const value = resolved.value.schema.type === "integer" ? Number(text) : text;
    return judge(`${resolved.pointer}/schema`, value).map((fault) => `${name}: ${fault}`);
  });
}
