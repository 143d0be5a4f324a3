import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { useLocation } from "preact-iso/router";
import { useRead } from "../queries.js";
import { Loaded } from "./loaded.js";

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

interface ListProps<Row> extends Omit<TableProps<Row>, "rows"> {
  /** Names the list, with its filters. */
  listKey: readonly unknown[];
  read: (page: { limit: number; cursor?: string }) => Promise<{ items: Row[]; nextCursor: string | null }>;
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
export function withQuery(changes: Record<string, unknown>): string {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) value ? query.set(name, `${value}`) : query.delete(name);
  return query.size > 0 ? `${location.pathname}?${query}` : location.pathname;
}
