import type { Sql, SqlValue } from "../database/db.js";

// What the statements of lists of forms are built with: their parameters by name, and the order of the list.

const TYPES = {
  userId: "uuid",
  afterCreatedAt: "timestamptz",
  afterId: "uuid",
  take: "int",
  /** LIST_SETTLE_SECONDS. */
  settleSeconds: "int",
  listingId: "uuid",
  status: "text",
  externalId: "text",
  updatedSince: "timestamptz",
  checkInFrom: "timestamptz",
  checkInTo: "timestamptz",
  checkInDay: "date",
  /** Lower-case names of the time zones that the database knows. */
  timeZones: "text[]",
  /** More rows than a table has. */
  all: "bigint",
  mostInScope: "int",
  mostWithValue: "int",
} as const;

type ParameterName = keyof typeof TYPES;

export type ListParameters = { [Name in ParameterName]?: SqlValue };

export interface Builder {
  /** Placeholder of a parameter. */
  $: (name: ParameterName) => string;
  /** Condition: after the cursor. */
  after: (createdAt: string, id: string) => string;
  /** `ORDER BY` these. */
  sorted: (createdAt: string, id: string) => string;
}

export const ORDERS = {
  "oldest first": { comparison: ">", direction: "" },
  "newest first": { comparison: "<", direction: " DESC" },
} as const;

export interface ListStatement<Row extends object> {
  /** Parameters that are not given are null. */
  read(sql: Sql, parameters: ListParameters): Promise<Row[]>;
}

export function buildStatement<Row extends object>(
  name: string,
  order: keyof typeof ORDERS,
  build: (builder: Builder) => string,
): ListStatement<Row> {
  const { comparison, direction } = ORDERS[order];
  const names: ParameterName[] = [];
  const $ = (parameter: ParameterName) => {
    if (!names.includes(parameter)) names.push(parameter);
    return `$${names.indexOf(parameter) + 1}::${TYPES[parameter]}`;
  };
  const after = (createdAt: string, id: string) =>
    `(${createdAt}, ${id}) ${comparison} (${$("afterCreatedAt")}, ${$("afterId")})`;
  const sorted = (createdAt: string, id: string) => `ORDER BY ${createdAt}${direction}, ${id}${direction}`;
  const text = build({ $, after, sorted });
  return {
    read: (sql, parameters) =>
      sql.query<Row>(
        name,
        text,
        names.map((parameter) => parameters[parameter] ?? null),
      ),
  };
}
