import type { ComponentChildren } from "preact";
import { useId, useState } from "preact/hooks";
import { toFailure } from "../core.js";
import { useChange } from "../queries.js";
import { Problem } from "./states.js";

export interface Field {
  /** As the core names it. */
  name: string;
  label: string;
  hint?: string;
  /** `choice` has options; `flag`: yes, no or unset. Default: text. */
  type?: "text" | "email" | "url" | "number" | "password" | "datetime-local" | "choice" | "flag";
  options?: readonly (readonly [value: string, text: string])[];
  required?: boolean;
  value?: string | number | boolean | null | undefined;
}

export type Values = Record<string, string | number | boolean | null>;

const FLAGS = [
  ["", "Not set"],
  ["true", "Yes"],
  ["false", "No"],
] as const;

/** The values as the core takes them: empty is null, a local time is an instant. */
function readValues(form: HTMLFormElement, fields: readonly Field[]): Values {
  const data = new FormData(form);
  return Object.fromEntries(
    fields.map(({ name, type }) => {
      const text = `${data.get(name) ?? ""}`.trim();
      if (text === "") return [name, null];
      if (type === "number") return [name, Number(text)];
      if (type === "flag") return [name, text === "true"];
      if (type === "datetime-local") return [name, new Date(text).toISOString()];
      return [name, text];
    }),
  );
}

interface FormProps<Result> {
  fields: readonly Field[];
  /** Text of the button. */
  submit: string;
  send: (values: Values) => Promise<Result>;
  /** What to tell the reader. */
  done: (result: Result) => string | undefined;
  onDone?: (result: Result) => void;
  isDangerous?: boolean;
  children?: ComponentChildren;
}

/** A form. The issues of a rejected input are at its fields, and what was typed stays. Without fields: a confirmation. */
export function Form<Result>({ fields, submit, send, done, onDone, isDangerous, children }: FormProps<Result>) {
  const prefix = useId();
  const change = useChange(send, done);
  const [error, setError] = useState<unknown>();
  const failure = error ? toFailure(error) : undefined;
  const issueOf = (name: string) => failure?.fields.find(({ field }) => field === name)?.issue;
  const isAtFields =
    Boolean(failure?.fields.length) && failure?.fields.every(({ field }) => fields.some(({ name }) => name === field));
  const onSubmit = async (form: HTMLFormElement) => {
    setError(undefined);
    try {
      onDone?.(await change.mutateAsync(readValues(form, fields)));
    } catch (thrown) {
      setError(thrown);
      // After the issues are there.
      setTimeout(() => form.querySelector<HTMLElement>("[aria-invalid=true]")?.focus());
    }
  };
  return (
    <form
      class="fields"
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        void onSubmit(event.currentTarget);
      }}
    >
      {children}
      {fields.map((field) => (
        <FieldInput key={field.name} field={field} id={`${prefix}-${field.name}`} issue={issueOf(field.name)} />
      ))}
      {error && !isAtFields ? <Problem error={error} /> : null}
      <button type="submit" class={isDangerous ? "primary danger" : "primary"} disabled={change.isPending}>
        {change.isPending ? "Working …" : submit}
      </button>
    </form>
  );
}

function FieldInput({ field, id, issue }: { field: Field; id: string; issue: string | undefined }) {
  const { name, label, hint, type = "text", required, value } = field;
  const options = type === "flag" ? FLAGS : field.options;
  const common = {
    id,
    name,
    required,
    "aria-invalid": issue ? ("true" as const) : undefined,
    "aria-describedby": [hint && `${id}-hint`, issue && `${id}-issue`].filter(Boolean).join(" ") || undefined,
  };
  return (
    <div class="field">
      <label for={id}>
        {label} {!required && !options && <span class="quiet">(optional)</span>}
      </label>
      {options ? (
        <select {...common}>
          {options.map(([option, text]) => (
            <option key={option} value={option} selected={option === `${value ?? ""}`}>
              {text}
            </option>
          ))}
        </select>
      ) : (
        <input {...common} type={type} defaultValue={`${value ?? ""}`} autocomplete="off" />
      )}
      {hint && (
        <small id={`${id}-hint`} class="quiet">
          {hint}
        </small>
      )}
      {issue && (
        <small id={`${id}-issue`} class="issue">
          {label} {issue}
        </small>
      )}
    </div>
  );
}
