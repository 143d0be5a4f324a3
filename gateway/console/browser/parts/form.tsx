import type { ComponentChildren } from "preact";
import { useId, useState } from "preact/hooks";
import { CallFailed, toFailure } from "../core.js";
import { type Done, useChange } from "../queries.js";
import { Problem } from "./states.js";

export interface Field {
  /** As the core names it. */
  name: string;
  label: string;
  hint?: string;
  /**
   * `choice` has options, and `choices` any number of them; `flag`: yes, no or unset; `ids`: separated by spaces; `end-of-day`: a
   * date, of which the last second counts. Default: text.
   */
  type?: "text" | "email" | "url" | "number" | "datetime-local" | "end-of-day" | "choice" | "choices" | "flag" | "ids";
  options?: readonly (readonly [value: string, text: string])[];
  /** Of a text that may also be another. */
  suggestions?: readonly string[];
  required?: boolean;
  value?: Value | undefined;
}

type Value = string | number | boolean | null | readonly string[];

export type Values = Record<string, Value>;

const FLAGS = [
  ["", "Not set"],
  ["true", "Yes"],
  ["false", "No"],
] as const;

const instantOf = (localTime: string) => {
  const at = new Date(localTime);
  return Number.isNaN(at.getTime()) ? localTime : at.toISOString();
};

/** The values as the core takes them: empty is null unless the field is required, a local time is an instant. */
function readValues(form: HTMLFormElement, fields: readonly Field[]): Values {
  const data = new FormData(form);
  return Object.fromEntries(
    fields.map(({ name, type, required }) => {
      const text = `${data.get(name) ?? ""}`.trim();
      if (type === "choices") return [name, data.getAll(name).map(String)];
      if (type === "ids") return [name, text.split(/[\s,]+/).filter(Boolean)];
      if (text === "") return [name, required ? "" : null];
      if (type === "number") return [name, Number(text)];
      if (type === "flag") return [name, text === "true"];
      if (type === "datetime-local") return [name, instantOf(text)];
      if (type === "end-of-day") return [name, instantOf(`${text}T23:59:59`)];
      return [name, text];
    }),
  );
}

/** Rejects missing values, and those that the browser cannot parse, such as a half-typed date, which it reports as empty. */
function checkValues(form: HTMLFormElement, values: Values, fields: readonly Field[]): void {
  const issues = fields.flatMap(({ name, type, required }) => {
    const input = form.elements.namedItem(name);
    if (input instanceof HTMLInputElement && input.validity.badInput)
      return { field: name, issue: type === "number" ? "must be a number" : "must be a date" };
    return required && values[name] === "" ? { field: name, issue: "is required" } : [];
  });
  if (issues.length > 0) throw new CallFailed({ message: "", status: 400, fields: issues, correlationId: undefined });
}

/** Those of the values that differ, so that another operator's changes of other fields stay. */
export const changesOf = (values: Values, fields: readonly Field[]): Values =>
  Object.fromEntries(
    Object.entries(values).filter(([name, value]) => {
      const before = fields.find((field) => field.name === name)?.value ?? null;
      return JSON.stringify(value) !== JSON.stringify(before);
    }),
  );

export interface FormProps<Result> {
  fields?: readonly Field[];
  /** Text of the button. */
  submit: string;
  send: (values: Values) => Promise<Result>;
  done?: Done<Result>;
  onDone?: (result: Result) => void;
  isDangerous?: boolean;
  /** What will happen. */
  note?: ComponentChildren;
  children?: ComponentChildren;
}

/** A form. The issues of a rejected input are at its fields, and what was typed stays. Without fields: a confirmation. */
export function Form<Result>({
  fields = [],
  submit,
  send,
  done,
  onDone,
  isDangerous,
  note,
  children,
}: FormProps<Result>) {
  const prefix = useId();
  const change = useChange(send, done);
  const [error, setError] = useState<unknown>();
  const failure = error ? toFailure(error) : undefined;
  // Of an item of a list the name has its index: listingIds.0.
  const isAt = (name: string, field: string) => field === name || field.startsWith(`${name}.`);
  const issueOf = (name: string) => failure?.fields.find(({ field }) => isAt(name, field))?.issue;
  const isAtFields =
    Boolean(failure?.fields.length) &&
    failure?.fields.every(({ field }) => fields.some(({ name }) => isAt(name, field)));
  const onSubmit = async (form: HTMLFormElement) => {
    if (change.isRunning()) return;
    setError(undefined);
    try {
      const values = readValues(form, fields);
      checkValues(form, values, fields);
      onDone?.(await change.mutateAsync(values));
    } catch (thrown) {
      setError(thrown);
      // After the issues are there.
      setTimeout(() => form.querySelector<HTMLElement>("[aria-invalid=true]")?.focus());
    }
  };
  return (
    <form
      class="fields"
      aria-busy={change.isPending}
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        void onSubmit(event.currentTarget);
      }}
    >
      {note && <p>{note}</p>}
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

const INPUT_TYPES: Partial<Record<NonNullable<Field["type"]>, string>> = { "end-of-day": "date", ids: "text" };

function FieldInput({ field, id, issue }: { field: Field; id: string; issue: string | undefined }) {
  const { name, label, hint, type = "text", suggestions, required, value } = field;
  const options = type === "flag" ? FLAGS : field.options;
  const common = {
    id,
    "aria-invalid": issue ? ("true" as const) : undefined,
    "aria-describedby": [hint && `${id}-hint`, issue && `${id}-issue`].filter(Boolean).join(" ") || undefined,
  };
  const notes = (
    <>
      {hint && (
        <small id={`${id}-hint`} class="quiet">
          {hint}
        </small>
      )}
      {issue && (
        <small id={`${id}-issue`} class="issue">
          {label}: {issue}
        </small>
      )}
    </>
  );
  if (type === "choices") {
    const chosen = Array.isArray(value) ? value : [];
    return (
      <fieldset class="field" {...common}>
        <legend>{label}</legend>
        {options?.map(([option, text]) => (
          <label key={option}>
            <input type="checkbox" name={name} value={option} defaultChecked={chosen.includes(option)} /> {text}
          </label>
        ))}
        {notes}
      </fieldset>
    );
  }
  return (
    <div class="field">
      <label for={id}>
        {label} {!required && !options && <span class="quiet">(optional)</span>}
      </label>
      {options ? (
        <select {...common} name={name} required={required}>
          {options.map(([option, text]) => (
            <option key={option} value={option} selected={option === `${value ?? ""}`}>
              {text}
            </option>
          ))}
        </select>
      ) : (
        <input
          {...common}
          name={name}
          required={required}
          type={INPUT_TYPES[type] ?? type}
          defaultValue={Array.isArray(value) ? value.join(" ") : `${value ?? ""}`}
          autocomplete="off"
          list={suggestions && `${id}-suggestions`}
        />
      )}
      {suggestions && (
        <datalist id={`${id}-suggestions`}>
          {suggestions.map((one) => (
            <option key={one} value={one} />
          ))}
        </datalist>
      )}
      {notes}
    </div>
  );
}
