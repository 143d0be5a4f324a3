import { ERRORS, type ErrorCode, type ErrorEntry } from "../../server/errors.js";
import {
  type Endpoint,
  type Event,
  eventsOf,
  type Field,
  fieldsOf,
  nameOf,
  type OpenApiDocument,
  OTHER_TAG,
  operationsOf,
  type Parameter,
  type Response,
  refOf,
  type Schema,
} from "../openapi/read.js";
import { OPERATIONS } from "../operations/operations.js";
import { definitions, fieldList, keyField, tryForm } from "./fields.js";
import { type Html, html } from "./html.js";
import { codeBlock, heading, type Markdown } from "./markdown.js";

/** The operations, objects and events of the API. */
export const buildReference = (document: OpenApiDocument, markdown: Markdown): Html => html`<h1>API reference</h1>
<p>${document.info.summary} All paths are relative to the address of this server. Requests and responses are JSON.
The OpenAPI 3.1 document is <a href="/openapi.json">/openapi.json</a> (version ${document.info.version}).</p>
${heading(2, "authentication", "Authentication")}
<p>Send your API key with every request, as <code>Authorization: Bearer &lt;key&gt;</code> or as
<code>X-API-Key: &lt;key&gt;</code>. Enter it here to use your own listings and forms in the samples and to send
requests from this page. The key stays in the memory of this page until you reload the page.</p>
<form class="key">${keyField("key")}<p role="status" class="status"></p></form>
<datalist id="listings"></datalist><datalist id="forms"></datalist>
${groupsOf(document).map(
  ({ name, description, endpoints, objects, events }) => html`${heading(2, name, name)}
<p>${description}</p>
${endpoints.map((endpoint) => endpointArticle(document, markdown, endpoint))}
${objects.map(([object, schema]) => objectArticle(markdown, object, schema))}
${events.length > 0 && webhookArticle(document, markdown)}
${events.map((event) => eventArticle(markdown, event))}`,
)}`;

/** The operations and events by tag, each group with the objects that its operations return. */
function groupsOf(document: OpenApiDocument) {
  const tags = [...document.tags, { name: OTHER_TAG, description: "" }];
  const groups = tags.map(({ name, description }) => {
    const endpoints = operationsOf(document).filter(({ tag }) => tag === name);
    const events = eventsOf(document).filter(({ webhook }) => webhook.tags.includes(name));
    return { name, description, endpoints, objects: objectsOf(document, endpoints), events };
  });
  return groups.filter(({ endpoints, events }) => endpoints.length + events.length > 0);
}

/** The schemas that the operations return, by name. */
function objectsOf({ components }: OpenApiDocument, endpoints: Endpoint[]): [name: string, schema: Schema][] {
  const names = endpoints.map(({ operation }) => refOf(successOf(operation.responses).response?.content));
  return Object.entries(components.schemas).filter(([name]) => names.includes(name));
}

function successOf(responses: Record<string, Response>) {
  const [status = "", response] = Object.entries(responses)[0] ?? [];
  return { status, response };
}

/** The errors of an operation, and when it returns them. */
function errorRows({ components }: OpenApiDocument, markdown: Markdown, { method, path, operation }: Endpoint) {
  const own = OPERATIONS.find((each) => each.method === method && each.path === path)?.when;
  return Object.entries(operation.responses).flatMap(([status, { $ref = "" }]) => {
    const { examples = {} } = components.responses[nameOf($ref)]?.content?.["application/json"] ?? {};
    return Object.keys(examples).map((code) => {
      const { also, condition }: ErrorEntry = ERRORS[code as ErrorCode];
      const when = also?.[Number(status)] ?? own?.[code as ErrorCode] ?? condition;
      const sentence = when.replace("](#", "](/docs/contract#").replace(/\.?$/, ".");
      return [html`${status} ${markdown.inline(`\`${code}\``)}`, markdown.inline(sentence)] as const;
    });
  });
}

function endpointArticle(document: OpenApiDocument, markdown: Markdown, endpoint: Endpoint): Html {
  const { method, path, title, operation } = endpoint;
  const { operationId, description = "", parameters = [], requestBody, "x-codeSamples": samples } = operation;
  const { status, response } = successOf(operation.responses);
  const fields = (where: Parameter["in"]) => parameters.filter((parameter) => parameter.in === where);
  const input = document.components.schemas[refOf(requestBody?.content)] ?? {};
  const returned = refOf(response?.content);
  const example = response?.content?.["application/json"]?.example;
  return html`<article class="operation">
<div>
${heading(3, operationId, title)}
<p><span class="method">${method}</span> <code>${path}</code></p>
<p>${markdown.inline(description)}</p>
${fieldList(markdown, "Path parameters", fields("path"))}
${fieldList(markdown, "Query parameters", fields("query"))}
${fieldList(markdown, "Headers", fields("header"))}
${fieldList(markdown, "Body", fieldsOf(input))}
<h4>Returns</h4>
<p><strong>${status}</strong> ${markdown.inline(response?.description ?? "")}${
    returned !== "" && html` See <a href="#${returned}">${returned}</a>.`
  }</p>
${fieldList(markdown, "Response headers", ownHeaders(document, response))}
${definitions("Errors", errorRows(document, markdown, endpoint))}
</div>
<div class="samples">
<div class="sample">
<div class="tabs" role="radiogroup" aria-label="Request"><span class="quiet">Request</span>${samples.map(
    ({ lang, label }, index) =>
      html`<label><input type="radio" name="${operationId}-language" value="${lang}"${
        index === 0 && html` checked`
      }>${label}</label>`,
  )}</div>
${samples.map(({ lang, source }) => codeBlock(withAddress(source), lang))}
</div>
${example !== undefined && exampleBlock(`Response ${status}`, example)}
${tryForm(endpoint, input)}
</div>
</article>`;
}

/** Puts the address of the guides, which the page replaces by its own (browser/samples.js), in place of the variable. */
const withAddress = (source: string) =>
  source
    .replace(
      /process\.env\.GUEST_FORMS_BASE_URL|(?:os\.environ\[|(?:System\.)?getenv\(|Environment\.GetEnvironmentVariable\()"GUEST_FORMS_BASE_URL"[\])]/g,
      `"${ADDRESS}"`,
    )
    .replaceAll("$GUEST_FORMS_BASE_URL", ADDRESS);

const ADDRESS = "http://127.0.0.1:3000";

const exampleBlock = (label: string, example: unknown): Html =>
  html`<div class="sample response"><p class="quiet">${label}</p>
${codeBlock(JSON.stringify(example, null, 2), "json")}</div>`;

/** Response headers of this operation, without those that every response has. */
function ownHeaders({ components }: OpenApiDocument, response: Response | undefined): Field[] {
  return Object.entries(response?.headers ?? {})
    .filter(([name]) => !["X-Correlation-Id", "RateLimit", "RateLimit-Policy"].includes(name))
    .map(([name, header]) => {
      const { schema = {}, description } = header.$ref ? (components.headers[nameOf(header.$ref)] ?? {}) : header;
      return { name, schema, description };
    });
}

const objectArticle = (markdown: Markdown, name: string, schema: Schema): Html => html`<article class="object">
${heading(3, name, name)}
<p>${markdown.inline(schema.description ?? "")}</p>
${fieldList(markdown, "Fields", fieldsOf(schema), false)}
</article>`;

/** What all webhook requests have in common, and how to respond. */
function webhookArticle(document: OpenApiDocument, markdown: Markdown): Html {
  const responses = Object.entries(eventsOf(document)[0]?.webhook.responses ?? {}).sort(([a], [b]) =>
    a.localeCompare(b),
  );
  const rows = responses.map(([status, { description }]) => {
    const term = status === "default" ? html`Any other, or none` : html`<code>${status}</code>`;
    return [term, markdown.inline(description)] as const;
  });
  return html`<article class="object">
${heading(3, "webhook-requests", "Webhook requests")}
<p>Every request has these headers, and a JSON body with the type of the event.</p>
${fieldList(markdown, "Headers", Object.values(document.components.parameters), false)}
${definitions("Your response", rows)}
</article>`;
}

const eventArticle = (markdown: Markdown, { type, schema, webhook }: Event): Html => html`<article class="operation">
<div>
${heading(3, type, type)}
<p>Webhook event. ${markdown.inline(webhook.description)}</p>
${fieldList(markdown, "Body", eventFields(schema), false)}
</div>
<div class="samples">
${exampleBlock("Example body", webhook.requestBody.content["application/json"]?.example)}
</div>
</article>`;

/** The fields of an event, with those of its `data` as `data.form`. */
const eventFields = (schema: Schema): Field[] =>
  fieldsOf(schema).flatMap((field) =>
    field.schema.properties
      ? fieldsOf(field.schema).map((inner) => ({ ...inner, name: `${field.name}.${inner.name}` }))
      : [field],
  );
