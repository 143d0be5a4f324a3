import { useLocation } from "preact-iso/router";
import { withQuery } from "./list.js";

export interface Filter {
  name: string;
  label: string;
  type?: "search" | "date";
  /** For an id. */
  isWide?: boolean;
  /** Values and texts of a choice; absent: an input. */
  options?: readonly (readonly [value: string, text: string])[];
}

/** Filters of a list. They are in the page's address, so that it can be sent to others. */
export function Filters({ of }: { of: Filter[] }) {
  const { query, route } = useLocation();
  const set = (form: HTMLFormElement) => {
    const values = Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, `${value}`.trim()]));
    route(withQuery({ ...values, cursor: "" }));
  };
  const isSet = of.some(({ name }) => query[name]);
  return (
    <search>
      <form
        class="filters"
        onSubmit={(event) => {
          event.preventDefault();
          set(event.currentTarget);
        }}
      >
        {of.map(({ name, label, type = "search", isWide, options }) => (
          <div key={`${name} ${query[name] ?? ""}`} class={isWide ? "wide" : ""}>
            <label for={`filter-${name}`}>{label}</label>
            {options ? (
              <select id={`filter-${name}`} name={name} onChange={({ currentTarget: { form } }) => form && set(form)}>
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
              />
            )}
          </div>
        ))}
        <button type="submit">Filter</button>
        {isSet && (
          <a href={withQuery({ ...Object.fromEntries(of.map(({ name }) => [name, ""])), cursor: "" })}>Clear</a>
        )}
      </form>
    </search>
  );
}
