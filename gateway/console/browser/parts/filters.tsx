import { useLocation } from "preact-iso/router";
import { type Field, Form, type Values } from "./form.js";
import { withQuery } from "./list.js";

export interface Filter extends Field {
  /** Returns the id of what was typed, or fails at the field. */
  find?: (values: Values, name: string) => Promise<string>;
}

/** The filters that the page's address has. */
export const filtersIn = (query: Record<string, string>, filters: readonly Filter[]) =>
  Object.fromEntries(filters.flatMap(({ name }) => (query[name] ? [[name, query[name]]] : [])));

/** Filters of a list. They are in the page's address, so that it can be sent to others. */
export function Filters({ filters }: { filters: readonly Filter[] }) {
  const { query, route } = useLocation();
  const resolve = async (values: Values) => {
    const found = await Promise.all(
      filters.map(async ({ name, find }) => [name, find && values[name] ? await find(values, name) : values[name]]),
    );
    return Object.fromEntries(found);
  };
  const fields = filters.map((filter) => ({ ...filter, value: query[filter.name] ?? "" }));
  const show = (found: Values) => route(withQuery({ ...found, cursor: null }));
  return (
    <search>
      <Form fields={fields} submit="Show" send={resolve} onDone={show} isFilter />
    </search>
  );
}
