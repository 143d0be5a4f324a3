import { type Endpoint, type Field, fieldsOf, nameOf, type Schema, typesOf, valuesOf } from "../openapi/read.js";
import { type Html, html } from "./html.js";
import type { Markdown } from "./markdown.js";

/** A list under a heading; nothing if it is empty. */
export const definitions = (title: string, rows: readonly (readonly [term: Html, description: Html])[]) =>
  rows.length > 0 &&
  html`<h4>${title}</h4>
<dl class="fields">${rows.map(
    ([term, description]) => html`
<div><dt>${term}</dt><dd>${description}</dd></div>`,
  )}
</dl>`;

/** A list of parameters, body fields or headers. */
export function fieldList(markdown: Markdown, title: string, fields: readonly Field[], marksRequired = true) {
  const rows = fields.map(({ name, schema, description = "", required }) => {
    const values = valuesOf(schema).map((value) => html`<code>${value}</code> `);
    const isMarked = marksRequired && required === true;
    return [
      html`<code>${name}</code> <span class="quiet">${describeType(schema)}</span>${isMarked && REQUIRED}`,
      html`${markdown.inline(description)}${
        schema.default !== undefined && html` Default: <code>${String(schema.default)}</code>.`
      }${values.length > 0 && html`<div>${values}</div>`}`,
    ] as const;
  });
  return definitions(title, rows);
}

const REQUIRED = html` <small class="required">required</small>`;

const FORMATS: Record<string, string> = { uuid: "UUID", "date-time": "date-time", email: "email" };

function describeType(schema: Schema): Html {
  const { $ref, format, items } = schema;
  if ($ref) return html`<a href="#${nameOf($ref)}">${nameOf($ref)}</a>`;
  if (items) return html`array of ${describeType(items)}`;
  const named = typesOf(schema).map((name) => (name === "string" && FORMATS[format ?? ""]) || name);
  return html`${named.join(" or ")}`;
}

/** A field for the API key. All such fields of the page have the same value. */
export const keyField = (id: string): Html => html`<label for="${id}">API key</label>
<input id="${id}" class="api-key" type="password" placeholder="grf_…" autocomplete="off" spellcheck="false">`;

/** What a request from the page does, by method. */
const NOTES: Record<string, string> = {
  GET: "Reads the real data of your key.",
  POST: "Creates real data, and a guest whose address you give gets a real email.",
};

/** A form that sends a request of this operation (browser/try-it.js). */
export function tryForm({ method, path, tag, operation }: Endpoint, body: Schema): Html {
  const bodyFields = fieldsOf(body).map((field) => ({ ...field, in: "body" }));
  const inputs = [...(operation.parameters ?? []), ...bodyFields];
  const id = operation.operationId;
  return html`<details class="try"><summary>Try it</summary>
<form data-method="${method}" data-path="${path}" novalidate>
${keyField(`${id}-key`)}
${inputs.map((input) => {
  const isId = input.name === "id" || input.name.endsWith("Id");
  const example = input.schema.example;
  return html`<label for="${id}-${input.name}">${input.name}${!input.required && html` <small class="quiet">optional</small>`}</label>
<input id="${id}-${input.name}" name="${input.name}" data-in="${input.in}" autocomplete="off" spellcheck="false"${
    input.required && html` required`
  }${typesOf(input.schema).includes("integer") && html` data-type="integer" inputmode="numeric"`}${
    isId && html` list="${input.name === "id" ? tag.toLowerCase() : "listings"}"`
  }${
    example !== undefined && input.required && !isId && html` value="${String(example)}"`
  }${example !== undefined && !input.required && html` placeholder="${String(example)}"`}>`;
})}
<small class="quiet">${NOTES[method] ?? "Changes real data."}</small>
<button type="submit">Send request</button>
<p class="status" role="status"></p>
<pre class="answer" hidden></pre>
</form></details>`;
}
