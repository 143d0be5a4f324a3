import type { ComponentChildren } from "preact";
import { useLocation } from "preact-iso/router";
import { useRead } from "../queries.js";
import { Loaded } from "./states.js";

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

/** A table; on a phone each row is a card. */
export function Table<Row>({ caption, columns, rows, keyOf, empty }: TableProps<Row>) {
  if (rows.length === 0) return <div class="empty">{empty}</div>;
  return (
    <table>
      <caption class="hidden">{caption}</caption>
      <thead>
        <tr>
          {Object.keys(columns).map((name) => (
            <th key={name} scope="col">
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
                {cell(row) ?? <span class="quiet">–</span>}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

interface Page<Row> {
  items: Row[];
  nextCursor: string | null;
}

interface ListProps<Row> extends Omit<TableProps<Row>, "rows"> {
  /** Names the list, with its filters. */
  listKey: readonly unknown[];
  read: (page: { limit: number; cursor?: string }) => Promise<Page<Row>>;
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
  const rows = useRead([...listKey, cursor], () => read(page), { everySeconds: everySeconds ?? false });
  return (
    <Loaded query={rows}>
      {({ items, nextCursor }) => (
        <>
          <Table {...table} rows={items} />
          {(cursor || nextCursor) && (
            <nav class="pager" aria-label={`Pages: ${table.caption}`}>
              {cursor && <a href={withQuery({ [cursorName]: "" })}>First page</a>}
              {nextCursor && <a href={withQuery({ [cursorName]: nextCursor })}>Next page</a>}
            </nav>
          )}
        </>
      )}
    </Loaded>
  );
}

/** The page's address with these changes of its query; an empty text removes. */
export function withQuery(changes: Record<string, string>): string {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) value ? query.set(name, value) : query.delete(name);
  return query.size > 0 ? `${location.pathname}?${query}` : location.pathname;
}
