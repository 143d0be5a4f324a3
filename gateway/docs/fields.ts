import { type Html, html } from "./html.js";
import type { Markdown } from "./markdown.js";
import { nameOf, type Schema } from "./openapi-types.js";

export interface Field {
  name: string;
  schema: Schema;
  description?: string | undefined;
  required?: boolean | undefined;
}

/** The fields of an object's schema. */
export const fieldsOf = ({ properties = {}, required = [] }: Schema): Field[] =>
  Object.entries(properties).map(([name, schema]) => ({
    name,
    schema,
    description: schema.description,
    required: required.includes(name),
  }));

/** A list of parameters, body fields or headers under a heading; nothing if there are none. */
export const fieldList = (markdown: Markdown, title: string, fields: readonly Field[], marksRequired = true) =>
  fields.length > 0 &&
  html`<h4>${title}</h4>
<dl class="fields">${fields.map(({ name, schema, description, required }) => {
    const values = valuesOf(schema);
    return html`
<div><dt><code>${name}</code> <span class="type">${typeOf(schema)}</span>${
      marksRequired && required === true && html` <span class="required">required</span>`
    }</dt><dd>${description && markdown.inline(description)}${
      schema.default !== undefined && html` Default: <code>${String(schema.default)}</code>.`
    }${values.length > 0 && html` <span class="values">${values.map((value) => html`<code>${value}</code> `)}</span>`}</dd></div>`;
  })}
</dl>`;

const valuesOf = ({ enum: values, anyOf }: Schema): string[] =>
  values ?? anyOf?.flatMap(({ enum: inner = [] }) => inner) ?? [];

const FORMATS: Record<string, string> = { uuid: "UUID", "date-time": "date-time", email: "email" };

function typeOf(schema: Schema): Html {
  const { $ref, type, format, items, anyOf } = schema;
  if ($ref) return html`<a href="#${nameOf($ref)}">${nameOf($ref)}</a>`;
  if (items) return html`array of ${typeOf(items)}`;
  const types = [type ?? anyOf?.[0]?.type ?? "object"].flat();
  const named = types.map((name) => (name === "string" && FORMATS[format ?? ""]) || name);
  return html`${named.join(" or ")}`;
}
