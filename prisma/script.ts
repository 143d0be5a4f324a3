/** A lock that a statement takes on a table that existed before its migration. */
export interface Lock {
  table: string;
  /** Mode of the lock, as in PostgreSQL's documentation: "ACCESS EXCLUSIVE", "SHARE UPDATE EXCLUSIVE", … */
  mode: string;
  /** Whether the statement also reads or rewrites the whole table, which takes long on a large one. */
  work?: "reads" | "rewrites";
}

export interface Statement {
  /** Without comments before it. */
  sql: string;
  /** The locks that its comment states. A test compares them with those that Postgres takes. */
  locks: Lock[];
}

/** A script runs as one transaction, or is one statement that builds or drops an index CONCURRENTLY. */
export type Script =
  | { kind: "transaction"; statements: Statement[] }
  | { kind: "concurrent"; action: "create" | "drop"; index: string; statements: [Statement] };

// Function bodies, strings, quoted names and comments. Matched together because each can contain the delimiters of another.
const LITERALS_AND_COMMENTS =
  /\$(\w*)\$[\s\S]*?\$\1\$|\bE'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|"(?:[^"]|"")*"|--.*|\/\*[\s\S]*?\*\//gi;
const COMMENTS = /^(?:\s+|--.*|\/\*[\s\S]*?\*\/)+/;
const LOCKS = /^-- Locks: (.+)$/gm;
const LOCK = /^(\w+) ([A-Z ]+?)(?: and (reads|rewrites) it)?$/;
const NOT_IN_TRANSACTION = /\b(abort|commit|end|concurrently|rollback|vacuum)\b/i;
const CONCURRENT_INDEX =
  /^(CREATE|DROP)\s+(?:UNIQUE\s+)?INDEX\s+CONCURRENTLY\s+(?:IF (?:NOT )?EXISTS\s+)?"?((?!ON\b)\w+)"?(?:\s+ON\b|\s*$)/i;

/** Replaces literals and comments by spaces, so that positions stay the same. */
const mask = (script: string) => script.replace(LITERALS_AND_COMMENTS, (text) => " ".repeat(text.length));

/** Parses the script of a migration; throws if it cannot be applied safely. */
export function parseScript(script: string): Script {
  const statements = splitStatements(script);
  if (!NOT_IN_TRANSACTION.test(mask(script))) return { kind: "transaction", statements };
  const [statement, ...others] = statements;
  const [, action = "", index = ""] = CONCURRENT_INDEX.exec(statement?.sql ?? "") ?? [];
  if (!statement || others.length > 0 || !index) {
    throw new Error(
      "it has a statement or a word (ABORT, COMMIT, END, ROLLBACK, VACUUM) that may end its transaction or not run in one. Only CREATE INDEX CONCURRENTLY and DROP INDEX CONCURRENTLY are allowed, with the name of one index and alone in a migration of its own",
    );
  }
  return {
    kind: "concurrent",
    action: action.toUpperCase() === "CREATE" ? "create" : "drop",
    index,
    statements: [statement],
  };
}

function splitStatements(script: string): Statement[] {
  const ends = [...mask(script).matchAll(/;|$(?![\s\S])/g)].map(({ index }) => index);
  return ends.flatMap((end, n) => {
    const text = script.slice(n === 0 ? 0 : (ends[n - 1] ?? 0) + 1, end);
    const [comments = ""] = COMMENTS.exec(text) ?? [];
    const sql = text.slice(comments.length).trim();
    return sql ? [{ sql, locks: parseLocks(comments) }] : [];
  });
}

const parseLocks = (comments: string): Lock[] =>
  [...comments.matchAll(LOCKS)].flatMap(([, text = ""]) => text.split(", ").map(parseLock));

function parseLock(text: string): Lock {
  const [, table = "", mode = "", work] = LOCK.exec(text) ?? [];
  if (!table) throw new Error(`its comment has a malformed lock: ${text}`);
  return { table, mode, ...(work && { work: work as NonNullable<Lock["work"]> }) };
}

/** The comment that states these locks; empty if there are none. */
export const formatLocks = (locks: Lock[]): string =>
  locks.length === 0
    ? ""
    : `-- Locks: ${locks.map(({ table, mode, work }) => `${table} ${mode}${work ? ` and ${work} it` : ""}`).join(", ")}`;
