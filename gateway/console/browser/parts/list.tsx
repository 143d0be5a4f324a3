import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { useLocation } from "preact-iso/router";
import { useRead } from "../queries.js";
import { type Field, Form, type Values } from "./form.js";
import { Loaded, Page } from "./page.js";

/** Cells by the name of their column; null is shown as a dash. */
export type Columns<Row> = Record<string, (row: Row) => ComponentChildren>;

interface TableProps<Row> {
  /** What the rows are, for screen readers. */
  caption: string;
  columns: Columns<Row>;
  rows: Row[];
  keyOf: (row: Row) => string;
  /** Shown without rows. */
  empty: ComponentChildren;
}

/** A table; on a phone or tablet each row is a card. */
export function Table<Row>({ caption, columns, rows, keyOf, empty }: TableProps<Row>) {
  if (rows.length === 0) return <p class="text-body-secondary mb-0">{empty}</p>;
  return (
    <table class="table table-hover mb-0">
      <caption class="visually-hidden">{caption}</caption>
      <thead>
        <tr>
          {Object.keys(columns).map((name) => (
            <th key={name} scope="col" class="small fw-normal text-body-secondary">
              {name}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={keyOf(row)}>
            {Object.entries(columns).map(([name, cell]) => (
              <td key={name} data-label={name}>
                {cell(row) ?? "–"}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

type PageRequest = { limit: number; cursor?: string };
type PageOf<Row> = { items: Row[]; nextCursor: string | null };

interface ListProps<Row> extends Omit<TableProps<Row>, "rows"> {
  /** Names the list, with its filters. */
  listKey: readonly unknown[];
  read: (page: PageRequest) => Promise<PageOf<Row>>;
  /** Name of the cursor in the page's address. Default: cursor. */
  cursorName?: string;
  everySeconds?: number;
  /** Rows per page. */
  limit?: number;
}

const LIMIT = 50;

/** A list, one page at a time. The cursor is in the page's address, so that the browser's Back goes one page back. */
export function List<Row>({
  listKey,
  read,
  cursorName = "cursor",
  everySeconds,
  limit = LIMIT,
  ...table
}: ListProps<Row>) {
  const { query } = useLocation();
  const cursor = query[cursorName];
  const page = { limit, ...(cursor && { cursor }) };
  const rows = useRead([...listKey, cursor], () => read(page), { everySeconds, isPaged: true });
  const nextCursor = rows.data?.nextCursor;
  const top = useRef<HTMLElement>(null);
  const shown = useRef(cursor);
  useEffect(() => {
    // The link that was pressed may be gone, and is below the new page.
    if (shown.current !== cursor) top.current?.focus();
    shown.current = cursor;
  }, [cursor]);
  return (
    <section ref={top} tabIndex={-1} aria-label={table.caption} class="vstack gap-3">
      <Loaded query={rows}>{({ items }) => <Table {...table} rows={items} />}</Loaded>
      {(cursor || nextCursor) && (
        <nav class="hstack flex-wrap gap-2" aria-label={`Pages: ${table.caption}`}>
          {cursor && <a href={withQuery({ [cursorName]: null })}>First page</a>}
          {nextCursor && <a href={withQuery({ [cursorName]: nextCursor })}>Next page</a>}
        </nav>
      )}
    </section>
  );
}

/** The page's address with these changes of its query; null removes. */
function withQuery(changes: Record<string, unknown>): string {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) value ? query.set(name, `${value}`) : query.delete(name);
  return query.size > 0 ? `${location.pathname}?${query}` : location.pathname;
}

export interface Filter extends Field {
  /** Returns the id of what was typed, or fails at the field. */
  find?: (values: Values, name: string) => Promise<string>;
}

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

/** One of several links, of which one is open. */
export const Tab = ({ href, isOpen, text }: { href: string; isOpen: boolean; text: string }) => (
  <a class={`nav-link ${isOpen ? "active" : ""}`} href={href} aria-current={isOpen ? "page" : undefined}>
    {text}
  </a>
);

interface StateTabsProps {
  label: string;
  states: readonly string[];
  /** A text if it is not exact. */
  counts?: Partial<Record<string, number | string>> | undefined;
  /** Open unless the page's address has one. Default: the first. */
  initial?: string | undefined;
}

/** The states of a list, which are in the page's address. */
export function StateTabs({ label, states, counts, initial = states[0] }: StateTabsProps) {
  const { query } = useLocation();
  return (
    <nav class="nav nav-pills" aria-label={label}>
      {states.map((state) => (
        <Tab
          key={state}
          href={withQuery({ state, cursor: null })}
          isOpen={state === (query.state ?? initial)}
          text={`${state.replaceAll("_", " ")} ${counts?.[state]?.toLocaleString() ?? ""}`}
        />
      ))}
    </nav>
  );
}

/** What filters in the page's address have, by name. */
type Given = Record<string, string>;

interface ListPageProps<Row> extends Omit<ListProps<Row>, "listKey" | "read" | "keyOf"> {
  title: string;
  actions?: ComponentChildren;
  filters: readonly Filter[];
  read: (given: Given, page: PageRequest) => Promise<PageOf<Row>>;
  /** Between the filters and the list. */
  children?: (given: Given) => ComponentChildren;
}

/** A page with a list and its filters. */
export function ListPage<Row extends { id: string }>(props: ListPageProps<Row>) {
  const { title, actions, filters, read, children, ...list } = props;
  const { query } = useLocation();
  const given: Given = Object.fromEntries(filters.flatMap(({ name }) => (query[name] ? [[name, query[name]]] : [])));
  return (
    <Page title={title} actions={actions}>
      <Filters filters={filters} />
      {children?.(given)}
      <List {...list} listKey={[title, given]} read={(page) => read(given, page)} keyOf={({ id }) => id} />
    </Page>
  );
}
