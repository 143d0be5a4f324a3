/** A value as JSON text. */
export type Json<Value> = string & { readonly value?: Value };

/** A row of a table whose `json` column Postgres generates from the others: its public resource. */
export interface JsonRow<Value> {
  json: Json<Value>;
}

/** The rows of such a query in one cell, a line each, which costs far less to receive than a cell each. */
export const inLines = (sql: string) => `SELECT string_agg(json, E'\\n') AS json FROM (${sql}) ordered`;

/** What `inLines` has joined: no JSON of ours has a line break in it. */
export const linesOf = <Value>([row]: { json: string | null }[]): Json<Value>[] =>
  row?.json?.split("\n") ?? [];

export const parse = <Value>(json: Json<Value>): Value => JSON.parse(json) as Value;

/** The answer as a value. */
export const answer = <Value>(json: Json<Value>): Value => parse(json);
