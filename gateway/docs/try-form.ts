import { fieldsOf } from "./fields.js";
import { type Html, html } from "./html.js";
import type { Endpoint, Parameter, Schema } from "./openapi-types.js";

/** A field for the API key. All such fields of the page have the same value. */
export const keyField = (id: string): Html => html`<label for="${id}">API key</label>
<input id="${id}" class="api-key" type="password" placeholder="grf_…" autocomplete="off" spellcheck="false">`;

interface Input {
  name: string;
  in: Parameter["in"] | "body";
  schema: Schema;
  required: boolean;
}

/** A form that sends a request of this operation (browser/try-it.js). */
export function tryForm({ method, path, tag, operation }: Endpoint, body: Schema): Html {
  const inputs: Input[] = [
    ...(operation.parameters ?? []).map(({ name, schema, required = false, ...parameter }) => ({
      name,
      schema,
      required,
      in: parameter.in,
    })),
    ...fieldsOf(body).map(({ name, schema, required = false }) => ({
      name,
      schema,
      required,
      in: "body" as const,
    })),
  ];
  const id = operation.operationId;
  return html`<details class="try"><summary>Try it</summary>
<form data-method="${method}" data-path="${path}" novalidate>
${keyField(`${id}-key`)}
${inputs.map((input) => {
  const isId = input.name === "id" || input.name.endsWith("Id");
  const example = input.schema.example;
  return html`<label for="${id}-${input.name}">${input.name}${!input.required && html` <small>optional</small>`}</label>
<input id="${id}-${input.name}" name="${input.name}" data-in="${input.in}" autocomplete="off" spellcheck="false"${
    input.required && html` required`
  }${typeOf(input.schema) === "integer" && html` data-type="integer" inputmode="numeric"`}${
    isId && html` list="${input.name === "id" ? tag.toLowerCase() : "listings"}"`
  }${
    example !== undefined && input.required && !isId && html` value="${String(example)}"`
  }${example !== undefined && !input.required && html` placeholder="${String(example)}"`}>`;
})}
<button type="submit">Send request</button>
<p class="status" role="status"></p>
<pre class="answer" hidden></pre>
</form></details>`;
}

const typeOf = ({ type }: Schema) => [type ?? "string"].flat()[0];
