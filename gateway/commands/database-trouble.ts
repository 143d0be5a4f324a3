import { factsOf } from "../../server/error-facts.js";
import { classify, needsOperator } from "../../server/failures.js";

/** What is wrong, by PostgreSQL's codes and by the names that Prisma and its adapter give the same. */
const TROUBLES: [codes: RegExp, sentence: (place: Place) => string][] = [
  [
    /^(28P01|28000|P1000|AuthenticationFailed)$/,
    ({ host }) => `The database at ${host} refuses the user or the password.`,
  ],
  [/^(3D000|P1003|DatabaseDoesNotExist)$/, ({ host, name }) => `There is no database ${name} at ${host}.`],
  [
    /^(42P01|42703|3F000|P2021|P2022|TableDoesNotExist|ColumnNotFound)$/,
    () => "The database is not up to date: run `guest-forms migrate` first.",
  ],
  [/^25006$/, ({ host }) => `The database at ${host} is read-only: is it a standby?`],
  [/^53100$/, ({ host }) => `The database at ${host} has no disk space left.`],
  [/^(53300|TooManyConnections)$/, ({ host }) => `The database at ${host} takes no more connections.`],
  [/^(57014|55P03|P1008|P2024|P2028)$/, ({ host }) => `The database at ${host} is too slow to answer.`],
];

interface Place {
  host: string;
  name: string;
}

/** One sentence for operators where the database is to blame, in its words and none of a library's; else undefined. */
export function databaseTrouble(error: unknown, databaseUrl: string): string | undefined {
  const { host: named, pathname, searchParams } = new URL(databaseUrl);
  const place = {
    host: decoded(named) || searchParams.get("host") || "localhost",
    name: decoded(pathname.slice(1)),
  };
  const facts = factsOf(error);
  const codes = facts.flatMap((fact) => fact.codes);
  for (const [pattern, sentence] of TROUBLES) {
    if (codes.some((code) => pattern.test(code))) return sentence(place);
  }
  const sqlState = codes.find((code) => SQL_STATE.test(code));
  if (classify(error) === "unavailable" && !needsOperator(error)) {
    const code = codes.find((candidate) => SYSTEM.test(candidate)) ?? sqlState;
    return `The database at ${place.host} cannot be reached, or is too slow to answer${code ? ` (${code})` : ""}.`;
  }
  if (!sqlState) return undefined;
  const [message] = facts.find((fact) => fact.codes.includes(sqlState))?.messages ?? [];
  return `The database at ${place.host} refuses this: ${oneLine(message)} (${sqlState}).`;
}

/** PostgreSQL's classes of errors; Prisma's codes have the same length. */
const SQL_STATE = /^(\d\d|F0|HV|P0|XX)[0-9A-Z]{3}$/;
const SYSTEM = /^E[A-Z_]+$/;

const oneLine = (text: unknown) => String(text).replace(/\s+/g, " ");

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
