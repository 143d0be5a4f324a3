import type { ComponentChildren } from "preact";
import { useId, useState } from "preact/hooks";
import { toFailure } from "../core.js";
import { type Done, useChange } from "../queries.js";
import { Problem } from "./states.js";

export interface Field {
  /** As the core names it. */
  name: string;
  label: string;
  hint?: string;
  /** `end-of-day`: a date, of which the last second counts, as an instant. Default: text. */
  type?: "text" | "email" | "number" | "password" | "search" | "date" | "end-of-day";
  /** Of a choice; its values may also be "true" and "false", and "" is null. */
  options?: readonly (readonly [value: string, text: string])[];
  required?: boolean;
  value?: Value | undefined;
}

type Value = string | number | boolean | null;

export type Values = Record<string, Value>;

/** The values as the core takes them: empty is null unless the field is required. */
function readValues(form: HTMLFormElement, fields: readonly Field[]): Values {
  const data = new FormData(form);
  const read = ({ name, type, required }: Field) => {
    const text = `${data.get(name) ?? ""}`.trim();
    if (text === "") return required ? "" : null;
    if (type === "number") return Number(text);
    if (type === "end-of-day") return new Date(`${text}T23:59:59`).toISOString();
    return ["true", "false"].includes(text) ? text === "true" : text;
  };
  return Object.fromEntries(fields.map((field) => [field.name, read(field)]));
}

export interface FormProps<Result> {
  fields?: readonly Field[];
  /** Text of the button. */
  submit: string;
  send: (values: Values) => Promise<Result>;
  done?: Done<Result>;
  onDone?: (result: Result) => void;
  isDangerous?: boolean;
  /** Fields side by side, none of them needed. */
  isInline?: boolean;
  /** Above the fields: what will happen. */
  children?: ComponentChildren;
}

/** A form. The issues of a rejected input are at its fields, and what was typed stays. Without fields: a confirmation. */
export function Form<Result>({
  fields = [],
  submit,
  send,
  done,
  onDone,
  isDangerous = false,
  isInline = false,
  children,
}: FormProps<Result>) {
  const prefix = useId();
  const change = useChange(send, done);
  const [error, setError] = useState<unknown>();
  const issues = error ? toFailure(error).fields : [];
  const isAtFields = issues.length > 0 && issues.every(({ field }) => fields.some(({ name }) => name === field));
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
      class={isInline ? "hstack flex-wrap gap-2 align-items-end" : "vstack gap-3"}
      aria-busy={change.isPending}
      onSubmit={(event) => {
        event.preventDefault();
        void onSubmit(event.currentTarget);
      }}
    >
      {children}
      {fields.map((field) => (
        <FieldInput
          // Shows other filters of the address. In a dialog, what was typed stays if the value changes.
          key={isInline ? `${field.name} ${field.value}` : field.name}
          field={field}
          id={`${prefix}-${field.name}`}
          issue={issues.find((one) => one.field === field.name)?.issue}
          isInline={isInline}
        />
      ))}
      {error && !isAtFields ? <Problem error={error} /> : null}
      <button type="submit" class={`btn ${isDangerous ? "btn-danger" : "btn-primary"}`} disabled={change.isPending}>
        {change.isPending ? "Working …" : submit}
      </button>
    </form>
  );
}

const UUID_LENGTH = 36;

type FieldInputProps = { field: Field; id: string; issue: string | undefined; isInline: boolean };

function FieldInput({ field, id, issue, isInline }: FieldInputProps) {
  const { name, label, hint, type = "text", options, required = false, value } = field;
  const common = {
    id,
    name,
    required,
    "aria-invalid": issue ? ("true" as const) : undefined,
    "aria-describedby": `${id}-notes`,
  };
  return (
    <div>
      <label class="form-label" for={id}>
        {label} {!isInline && !required && !options && <span class="text-body-secondary">(optional)</span>}
      </label>
      {options ? (
        <select {...common} class="form-select">
          {options.map(([option, text]) => (
            <option key={option} value={option} selected={option === `${value ?? ""}`}>
              {text}
            </option>
          ))}
        </select>
      ) : (
        <input
          {...common}
          class="form-control"
          size={UUID_LENGTH}
          type={type === "end-of-day" ? "date" : type}
          defaultValue={`${value ?? ""}`}
          autocomplete="off"
        />
      )}
      <div id={`${id}-notes`} class="small text-body-secondary">
        {hint} {issue && <span class="text-danger-emphasis">{`${label}: ${issue}`}</span>}
      </div>
    </div>
  );
}
