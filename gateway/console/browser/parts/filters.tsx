import { useState } from "preact/hooks";
import { useLocation } from "preact-iso/router";
import { toFailure } from "../core.js";
import { withQuery } from "./list.js";
import { Problem } from "./states.js";

export interface Filter {
  name: string;
  label: string;
  type?: "search" | "date";
  /** Id of what was typed, or fails at the field. */
  find?: (values: Record<string, string>, name: string) => Promise<string>;
  /** Values and texts of a choice; absent: an input. */
  options?: readonly (readonly [value: string, text: string])[];
}

/** Filters of a list. They are in the page's address, so that it can be sent to others. */
export function Filters({ of }: { of: Filter[] }) {
  const { query, route } = useLocation();
  const [error, setError] = useState<unknown>();
  const failure = error ? toFailure(error) : undefined;
  const issueOf = (name: string) => failure?.fields.find(({ field }) => field === name)?.issue;
  const set = async (form: HTMLFormElement) => {
    const values = Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, `${value}`.trim()]));
    setError(undefined);
    try {
      for (const { name, find } of of) if (find && values[name]) values[name] = await find(values, name);
      // Unless the reader has gone to another page.
      if (form.isConnected) route(withQuery({ ...values, cursor: "" }));
    } catch (thrown) {
      setError(thrown);
    }
  };
  const isSet = of.some(({ name }) => query[name]);
  return (
    <search>
      <form
        class="filters"
        onSubmit={(event) => {
          event.preventDefault();
          void set(event.currentTarget);
        }}
      >
        {of.map(({ name, label, type = "search", find, options }) => (
          <div key={`${name} ${query[name] ?? ""}`} class={find ? "wide" : ""}>
            <label for={`filter-${name}`}>{label}</label>
            {options ? (
              <select
                id={`filter-${name}`}
                name={name}
                onChange={({ currentTarget: { form } }) => form?.requestSubmit()}
              >
                {options.map(([value, text]) => (
                  <option key={value} value={value} selected={value === (query[name] ?? "")}>
                    {text}
                  </option>
                ))}
              </select>
            ) : (
              <input
                id={`filter-${name}`}
                name={name}
                type={type}
                defaultValue={query[name] ?? ""}
                autocomplete="off"
                aria-invalid={issueOf(name) ? "true" : undefined}
                aria-describedby={issueOf(name) && `filter-${name}-issue`}
              />
            )}
            {issueOf(name) && (
              <small id={`filter-${name}-issue`} class="issue" role="alert">
                {label}: {issueOf(name)}
              </small>
            )}
          </div>
        ))}
        <button type="submit">Filter</button>
        {isSet && (
          <a href={withQuery({ ...Object.fromEntries(of.map(({ name }) => [name, ""])), cursor: "" })}>Clear</a>
        )}
      </form>
      {failure && failure.fields.length === 0 && <Problem error={error} />}
    </search>
  );
}
