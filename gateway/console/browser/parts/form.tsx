import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { CallFailed, core, type FieldIssue, toFailure } from "../core.js";
import { type Done, useChange } from "../queries.js";
import { Problem } from "./notices.js";

export interface Field {
  /** As the core names it. */
  name: string;
  label: string;
  hint?: string;
  /** `end-of-day`: a date, of which the last second counts, as an instant. Default: text. */
  type?: "text" | "email" | "number" | "password" | "search" | "date" | "end-of-day";
  /** Choices of a select. "true" and "false" are booleans, "" is null. */
  options?: readonly (readonly [value: string, text: string])[];
  required?: boolean;
  value?: Value | undefined;
}

type Value = string | number | boolean | null;

export type Values = Record<string, Value>;

/** The values as the core takes them: empty is null unless the field is required. */
function readValues(form: HTMLFormElement, fields: readonly Field[]): Values {
  const data = new FormData(form);
  const read = ({ name, type, required, options }: Field) => {
    const text = `${data.get(name) ?? ""}`.trim();
    if (text === "") return required ? "" : null;
    if (type === "number") return Number(text);
    if (type === "end-of-day") return new Date(`${text}T23:59:59`).toISOString();
    return options && ["true", "false"].includes(text) ? text === "true" : text;
  };
  return Object.fromEntries(fields.map((field) => [field.name, read(field)]));
}

export interface FormProps<Result> {
  fields?: readonly Field[];
  /** Text of the button. */
  submit: string;
  /** `shown`: the fields with the values that the form had at first. */
  send: (values: Values, shown: readonly Field[]) => Promise<Result>;
  done?: Done<Result>;
  onDone?: (result: Result) => void;
  isDangerous?: boolean;
  /** Filters of a list: fields side by side, and nothing is changed. */
  isFilter?: boolean;
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
  isFilter = false,
  children,
}: FormProps<Result>) {
  const prefix = useId();
  const shown = useRef(fields).current;
  const change = useChange((values: Values) => send(values, shown), { done, isRead: isFilter });
  const [error, setError] = useState<unknown>();
  const issues = error ? toFailure(error).fields : [];
  const isAtFields = issues.length > 0 && issues.every(({ field }) => fields.some(({ name }) => name === field));
  const onSubmit = async (form: HTMLFormElement) => {
    if (change.isPending) return;
    setError(undefined);
    try {
      const result = await change.mutateAsync(readValues(form, fields));
      // The reader may have gone to another page.
      if (form.isConnected) onDone?.(result);
    } catch (thrown) {
      setError(thrown);
      // After the issues are there.
      setTimeout(() => form.querySelector<HTMLElement>("[aria-invalid=true]")?.focus());
    }
  };
  return (
    <form
      class={isFilter ? "hstack flex-wrap gap-2 align-items-end" : "vstack gap-3"}
      aria-busy={change.isPending}
      onSubmit={(event) => {
        event.preventDefault();
        void onSubmit(event.currentTarget);
      }}
    >
      {children}
      {fields.map((field) => (
        <FieldInput
          key={field.name}
          field={field}
          id={`${prefix}-${field.name}`}
          issue={sentenceOf(
            issues.find((one) => one.field === field.name),
            field,
          )}
          isFilter={isFilter}
        />
      ))}
      {error && !isAtFields && toFailure(error).status !== 401 ? <Problem error={error} /> : null}
      <button type="submit" class={`btn ${isDangerous ? "btn-danger" : "btn-primary"}`}>
        {change.isPending ? "Working …" : submit}
      </button>
    </form>
  );
}

/** An id fits: its characters are wider than the average ones. */
const ID_SIZE = 48;

const sentenceOf = (found: FieldIssue | undefined, { label }: Field) =>
  found && (found.sentence ?? `${label}: ${found.issue}`);

type FieldInputProps = { field: Field; id: string; issue: string | undefined; isFilter: boolean };

function FieldInput({ field, id, issue, isFilter }: FieldInputProps) {
  const { name, label, hint, type = "text", options, required = false, value } = field;
  const common = {
    id,
    name,
    required,
    "aria-invalid": issue ? ("true" as const) : undefined,
    "aria-describedby": `${id}-notes`,
  };
  // Before it is painted, so that a filter never shows another value than the address.
  useLayoutEffect(() => {
    const input = document.getElementById(id);
    const isInput = input instanceof HTMLInputElement || input instanceof HTMLSelectElement;
    if (isInput && value !== undefined) input.value = `${value ?? ""}`;
    // In a dialog, what was typed stays if the value changes.
  }, [isFilter && value]);
  return (
    <div>
      <label class="form-label" for={id}>
        {label} {!isFilter && !required && !options && <span class="text-body-secondary">(optional)</span>}
      </label>
      {options ? (
        <select {...common} class="form-select">
          {options.map(([option, text]) => (
            <option key={option} value={option}>
              {text}
            </option>
          ))}
        </select>
      ) : (
        <input
          {...common}
          class="form-control"
          size={ID_SIZE}
          type={type === "end-of-day" ? "date" : type}
          autocomplete={type === "password" ? "one-time-code" : "off"}
        />
      )}
      <div id={`${id}-notes`} class={`${hint || issue ? "mt-1" : ""} small text-body-secondary`}>
        {hint}
        {issue && <div class="text-danger-emphasis">{issue}</div>}
      </div>
    </div>
  );
}

/** Returns the id of what `find` finds by the text in the form's field, or fails at the field. */
const findIn =
  (issue: string, find: (text: string) => Promise<{ id: string }>) => async (values: Values, field: string) => {
    try {
      return (await find(`${values[field] ?? ""}`)).id;
    } catch (error) {
      const { message, status } = toFailure(error);
      throw [400, 404].includes(status) ? new CallFailed(message, { status, fields: [{ field, issue }] }) : error;
    }
  };

export const findUserId = findIn("no user has this email address, external id or id", (user) =>
  core.users.find.query({ user }),
);

export const findListingId = findIn("no listing has this external id or id", (listing) =>
  core.listings.find.query({ listing }),
);
