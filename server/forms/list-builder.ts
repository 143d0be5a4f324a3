import type { Sql, SqlValue } from "../database/db.js";
import { UPDATED_AT } from "./queries.js";

// What the statements of lists of forms are built with: their parameters by name, the filters, and the order of the list.

const TYPES = {
  userId: "uuid",
  afterCreatedAt: "timestamptz",
  afterId: "uuid",
  take: "int",
  /** LIST_SETTLE_SECONDS. */
  settleSeconds: "int",
  /** The primary's time, of a page that a standby reads. */
  primaryNow: "timestamptz",
  listingId: "uuid",
  status: "text",
  externalId: "text",
  updatedSince: "timestamptz",
  checkInFrom: "timestamptz",
  checkInTo: "timestamptz",
  checkInDay: "date",
  /** State of the last invitation. */
  emailState: "text",
  arrivesWithinDays: "int",
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

// Not coalesce(column = $, true): it would let pass forms whose column is null.
export const ifGiven = ({ $ }: Builder, parameter: ParameterName, comparison: string) =>
  `(${$(parameter)} IS NULL OR ${comparison} ${$(parameter)})`;

/** Condition: form `f` matches the filters. */
export const matches = (builder: Builder) => `${ifGiven(builder, "status", "f.status =")}
        AND ${ifGiven(builder, "externalId", "f.external_id =")}
        AND ${ifGiven(builder, "updatedSince", `${UPDATED_AT} >=`)}
        AND ${ifGiven(builder, "checkInFrom", "f.check_in_date >=")}
        AND ${ifGiven(builder, "checkInTo", "f.check_in_date <")}`;

/** What `matches` reads. The index `forms_listing_idx` has these columns. */
export const FILTERED_COLUMNS = "f.status, f.external_id, f.updated_at, f.check_in_date";

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
