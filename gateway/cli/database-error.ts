import { classify, factsOf, needsOperator } from "../../server/database/failures.js";

/** The decoded part of a URL; the part itself if it is malformed. */
export function decodeUri(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Messages by PostgreSQL's SQLSTATE and the equivalent codes of Prisma and its adapter. */
const KNOWN_ERRORS: [codes: RegExp, message: (host: string, name: string) => string][] = [
  [
    /^(28P01|28000|P1000|AuthenticationFailed)$/,
    (host) => `The database at ${host} rejected the user name or password: check DATABASE_URL.`,
  ],
  [/^(3D000|P1003|DatabaseDoesNotExist)$/, (host, name) => `There is no database ${name} at ${host}.`],
  [
    /^(42P01|42703|3F000|P2021|P2022|TableDoesNotExist|ColumnNotFound)$/,
    () => "The database is not up to date: run `guest-forms migrate` first.",
  ],
  [/^25006$/, (host) => `The database at ${host} is read-only: check that it is not a standby.`],
  [/^53100$/, (host) => `The database at ${host} has no disk space left.`],
  [/^(53300|TooManyConnections)$/, (host) => `The database at ${host} has no free connections.`],
  [/^(57014|55P03|P1008|P2024|P2028)$/, (host) => `The database at ${host} did not answer in time.`],
];

/** One sentence for the operator, without Prisma's own wording. Undefined if the database did not cause the error. */
export function describeDatabaseError(error: unknown, databaseUrl: string): string | undefined {
  const { host: named, pathname, searchParams } = new URL(databaseUrl);
  const host = decodeUri(named) || searchParams.get("host") || "localhost";
  const facts = factsOf(error);
  const codes = facts.flatMap((fact) => fact.codes);
  for (const [pattern, message] of KNOWN_ERRORS) {
    if (codes.some((code) => pattern.test(code))) return message(host, decodeUri(pathname.slice(1)));
  }
  const sqlState = codes.find((code) => SQL_STATE.test(code));
  if (classify(error) === "unavailable" && !needsOperator(error)) {
    const code = codes.find((candidate) => SYSTEM_CODE.test(candidate)) ?? sqlState;
    return `The database at ${host} cannot be reached or did not answer in time${code ? ` (${code})` : ""}.`;
  }
  if (!sqlState) return undefined;
  const [message] = facts.find((fact) => fact.codes.includes(sqlState))?.messages ?? [];
  return `The database at ${host} returned an error: ${String(message).replace(/\s+/g, " ")} (${sqlState}).`;
}

/** PostgreSQL's error classes, to exclude Prisma's codes, which also have five characters. */
const SQL_STATE = /^(\d\d|F0|HV|P0|XX)[0-9A-Z]{3}$/;
const SYSTEM_CODE = /^E[A-Z_]+$/;
