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
  type Schema,
} from "../openapi/read.js";
import { OPERATIONS } from "../operations/operations.js";
import { fieldList, keyField, tryForm } from "./fields.js";
import { type Html, html } from "./html.js";
import { codeBlock, type Markdown } from "./markdown.js";

/** The operations, objects and events of the API. */
export const buildReference = (document: OpenApiDocument, markdown: Markdown): Html => html`<h1>API reference</h1>
<p>${document.info.summary} All paths are relative to the address of this server. Requests and responses are JSON.
The OpenAPI 3.1 document is <a href="/openapi.json">/openapi.json</a> (version ${document.info.version}).</p>
<h2 id="authentication"><a href="#authentication">Authentication</a></h2>
<p>Send your API key with every request, as <code>Authorization: Bearer &lt;key&gt;</code> or as
<code>X-API-Key: &lt;key&gt;</code>. Enter it here to use your own listings and forms in the samples and to send
requests from this page. The key stays in the memory of this page until you reload the page.</p>
<form class="key">${keyField("key")}<p role="status" class="status"></p></form>
<datalist id="listings"></datalist><datalist id="forms"></datalist>
${groupsOf(document).map(
  ({ name, description, endpoints, objects, events }) => html`<h2 id="${name}"><a href="#${name}">${name}</a></h2>
<p>${description}</p>
${endpoints.map((endpoint) => endpointArticle(document, markdown, endpoint))}
${objects.map(([object, schema]) => objectArticle(markdown, object, schema))}
${events.length > 0 && webhookArticle(document, markdown)}
${events.map((event) => eventArticle(markdown, event))}`,
)}`;

/** The operations and events by tag, each group with the objects that its operations return. */
function groupsOf(document: OpenApiDocument) {
  const all = operationsOf(document);
  const untagged = all.filter(({ tag }) => document.tags.every(({ name }) => name !== tag));
  const others = untagged.length > 0 ? [{ name: OTHER_TAG, description: "" }] : [];
  return [...document.tags, ...others].map(({ name, description }) => {
    const endpoints = all.filter(({ tag }) => tag === name);
    const events = eventsOf(document).filter(({ webhook }) => webhook.tags.includes(name));
    return { name, description, endpoints, objects: objectsOf(document, endpoints), events };
  });
}

/** The schemas that the operations return, by name. */
function objectsOf({ components }: OpenApiDocument, endpoints: Endpoint[]): [name: string, schema: Schema][] {
  const refs = endpoints.map(({ operation }) => successOf(operation.responses).body?.schema.$ref);
  return Object.entries(components.schemas).filter(([name]) => refs.some((ref) => ref && nameOf(ref) === name));
}

function successOf(responses: Record<string, Response>) {
  const [status = "", response] = Object.entries(responses)[0] ?? [];
  return { status, response, body: response?.content?.["application/json"] };
}

/** Schema of the request body, with the reference resolved. */
function bodyOf({ components }: OpenApiDocument, { operation }: Endpoint): Schema {
  const schema = operation.requestBody?.content["application/json"]?.schema ?? {};
  return schema.$ref ? (components.schemas[nameOf(schema.$ref)] ?? {}) : schema;
}

function errorsOf({ components }: OpenApiDocument, { operation }: Endpoint): { status: string; code: string }[] {
  return Object.entries(operation.responses).flatMap(([status, { $ref }]) => {
    const response = $ref ? components.responses[nameOf($ref)] : undefined;
    const codes = Object.keys(response?.content?.["application/json"]?.examples ?? {});
    return codes.map((code) => ({ status, code }));
  });
}

/** When an operation returns an error, in Markdown. */
function whenOf({ method, path }: Endpoint, status: string, code: string): string {
  const entry: ErrorEntry = ERRORS[code as ErrorCode];
  const own = OPERATIONS.find((operation) => operation.method === method && operation.path === path)?.when[
    code as ErrorCode
  ];
  const condition = entry.also?.[Number(status)] ?? own ?? entry.condition;
  return condition.replace("](#", "](/docs/contract#").replace(/\.?$/, ".");
}

function endpointArticle(document: OpenApiDocument, markdown: Markdown, endpoint: Endpoint): Html {
  const { method, path, title, operation } = endpoint;
  const { status, response, body } = successOf(operation.responses);
  const fields = (where: Parameter["in"]) => (operation.parameters ?? []).filter((parameter) => parameter.in === where);
  const input = bodyOf(document, endpoint);
  const ref = body?.schema.$ref;
  return html`<article class="operation">
<div>
<h3 id="${operation.operationId}"><a href="#${operation.operationId}">${title}</a></h3>
<p class="endpoint"><span class="method">${method}</span> <code>${path}</code></p>
<p>${markdown.inline(operation.description ?? "")}</p>
${fieldList(markdown, "Path parameters", fields("path"))}
${fieldList(markdown, "Query parameters", fields("query"))}
${fieldList(markdown, "Headers", fields("header"))}
${fieldList(markdown, "Body", fieldsOf(input))}
<h4>Returns</h4>
<p><strong>${status}</strong> ${markdown.inline(response?.description ?? "")}${
    ref !== undefined && html` See <a href="#${nameOf(ref)}">${nameOf(ref)}</a>.`
  }</p>
${fieldList(markdown, "Response headers", ownHeaders(document, response))}
<h4>Errors</h4>
<dl class="fields">${errorsOf(document, endpoint).map(
    ({ status, code }) => html`
<div><dt>${status} ${markdown.inline(`\`${code}\``)}</dt><dd>${markdown.inline(whenOf(endpoint, status, code))}</dd></div>`,
  )}
</dl>
</div>
<div class="samples">
<div class="sample">
<fieldset class="tabs"><legend class="quiet">Request</legend>${operation["x-codeSamples"].map(
    ({ lang, label }, index) =>
      html`<label><input type="radio" name="${operation.operationId}-language" value="${lang}"${
        index === 0 && html` checked`
      }>${label}</label>`,
  )}</fieldset>
${operation["x-codeSamples"].map(({ lang, source }) => codeBlock(source, lang))}
</div>
${
  body?.example !== undefined &&
  html`<div class="sample response"><p class="quiet">Response ${status}</p>
${codeBlock(JSON.stringify(body.example, null, 2), "json")}</div>`
}
${tryForm(endpoint, input)}
</div>
</article>`;
}

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
<h3 id="${name}"><a href="#${name}">${name}</a></h3>
<p>${markdown.inline(schema.description ?? "")}</p>
${fieldList(markdown, "Fields", fieldsOf(schema), false)}
</article>`;

/** What all webhook requests have in common, and how to respond. */
const webhookArticle = (document: OpenApiDocument, markdown: Markdown): Html => html`<article class="object">
<h3 id="webhook-requests"><a href="#webhook-requests">Webhook requests</a></h3>
<p>Every request has these headers, and a JSON body with the type of the event.</p>
${fieldList(markdown, "Headers", Object.values(document.components.parameters), false)}
<h4>Your response</h4>
<dl class="fields">${webhookResponses(document).map(
  ([status, { description }]) => html`
<div><dt>${status === "default" ? "Any other, or none" : html`<code>${status}</code>`}</dt><dd>${markdown.inline(description)}</dd></div>`,
)}
</dl>
</article>`;

const webhookResponses = (document: OpenApiDocument): [status: string, response: Response][] =>
  Object.entries(eventsOf(document)[0]?.webhook.responses ?? {}).sort(([a], [b]) => a.localeCompare(b));

const eventArticle = (markdown: Markdown, { type, schema, webhook }: Event): Html => html`<article class="operation">
<div>
<h3 id="${type}"><a href="#${type}">${type}</a></h3>
<p>Webhook event. ${markdown.inline(webhook.description)}</p>
${fieldList(markdown, "Body", eventFields(schema), false)}
</div>
<div class="samples">
<div class="sample response"><p class="quiet">Example body</p>
${codeBlock(JSON.stringify(webhook.requestBody.content["application/json"]?.example, null, 2), "json")}</div>
</div>
</article>`;

/** The fields of an event, with those of its `data` as `data.form`. */
const eventFields = (schema: Schema): Field[] =>
  fieldsOf(schema).flatMap((field) =>
    field.schema.properties
      ? fieldsOf(field.schema).map((inner) => ({ ...inner, name: `${field.name}.${inner.name}` }))
      : [field],
  );
