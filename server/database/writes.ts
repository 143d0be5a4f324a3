import { randomBytes } from "node:crypto";
import pg from "pg";
import { Prisma } from "../../prisma/client/client.js";
import { factsOf } from "./failures.js";

/** Why writes fail although the database answers. */
export interface WriteProblem {
  /** Without names of the installation: `/readyz` shows it to anyone. */
  reason: string;
  /** What to do, for the operator. */
  advice: string;
}

const LACKS_PRIVILEGES = "the database role lacks privileges";

const READ_ONLY: WriteProblem = {
  reason: "the database is read-only",
  advice:
    "Check that DATABASE_URL leads to the primary, that its storage is not full, and that default_transaction_read_only is off.",
};

const STANDBY: WriteProblem = { reason: "the database is a standby", advice: "Set DATABASE_URL to the primary." };

/** A write has not ended in time. */
export const UNANSWERED_WRITE: WriteProblem = {
  reason: "the database does not answer to a write",
  advice: "Check the disk of the database server.",
};

/** By SQLSTATE, and the code of StandbyReached. */
const PROBLEMS: Record<string, WriteProblem> = {
  STANDBY,
  // Of `primary.ts`, behind a pooler.
  "55000": STANDBY,
  "25006": READ_ONLY,
  "53100": {
    reason: "the database server has no disk space left",
    advice: "Free or add disk space on the database server.",
  },
  "42501": {
    reason: LACKS_PRIVILEGES,
    advice:
      "Grant the role of DATABASE_URL SELECT, INSERT, UPDATE and DELETE on all tables of guest-forms, and USAGE on its sequences.",
  },
};

/** The problem that caused this error; undefined if it has another cause. */
export const writeProblemOf = (error: unknown): WriteProblem | undefined =>
  factsOf(error)
    .flatMap(({ codes }) => codes)
    .map((code) => PROBLEMS[code])
    .find((problem) => problem !== undefined);

/** What is logged about an error: `advice` is what to do, if the database cannot be written. */
export const withAdvice = (err: unknown) => ({ err, advice: writeProblemOf(err)?.advice });

/** In the singular: the names of the tables are the same, or their plurals. */
const MODELS = Object.keys(Prisma.ModelName).map((name) => name.replace(/\B[A-Z]/g, "_$&").toLowerCase());

/** Of the tables of guest-forms and their sequences, of any owner. The operator may have others in the same schema. */
const READ_RIGHTS = `
  SELECT current_setting('transaction_read_only')::boolean AS "isReadOnly", current_user AS role,
    (SELECT string_agg(needed.privilege || ' on ' || c.relname, ', ' ORDER BY c.relname)
     FROM unnest($1::text[]) AS model
       JOIN pg_class t ON t.oid IN (to_regclass(model), to_regclass(model || 's'), to_regclass(regexp_replace(model, 'y$', 'ies')))
       JOIN pg_class c ON c.oid = t.oid OR c.oid IN (SELECT objid FROM pg_depend WHERE refobjid = t.oid AND deptype IN ('a', 'i'))
       JOIN (VALUES ('r', 'SELECT'), ('r', 'INSERT'), ('r', 'UPDATE'), ('r', 'DELETE'), ('S', 'USAGE'))
         AS needed (kind, privilege) ON needed.kind::"char" = c.relkind
     WHERE NOT CASE c.relkind
       WHEN 'S' THEN has_sequence_privilege(c.oid, privilege) ELSE has_table_privilege(c.oid, privilege) END) AS lacks`;

interface Rights {
  isReadOnly: boolean;
  role: string;
  /** Privileges on tables and sequences. */
  lacks: string | null;
}

/** More than one page, so that the server needs disk space. */
const PROBE_BYTES = 16_384;

/** SQLSTATEs of a connection that Postgres ends. */
const LOST = /^(08|57P)/;

// A large object: it needs no table and no privilege, and does not fill one of the tables with dead rows.
const PROBE = "SELECT lo_from_bytea(0, $1)";

/**
 * Returns why the database cannot be written; undefined if it can. Checks the privileges, and writes something that it rolls back.
 * Rejects if the database cannot be reached.
 */
export async function findWriteProblem(pool: pg.Pool): Promise<WriteProblem | undefined> {
  const client = await pool.connect();
  let broken: Error | undefined;
  try {
    const [rights] = (await client.query<Rights>(READ_RIGHTS, [MODELS])).rows;
    if (rights?.isReadOnly) return READ_ONLY;
    if (rights?.lacks)
      return { reason: LACKS_PRIVILEGES, advice: `Grant ${rights.lacks} to the role ${rights.role} of DATABASE_URL.` };
    await client.query("BEGIN");
    await client.query(PROBE, [randomBytes(PROBE_BYTES)]);
    return undefined;
  } catch (error) {
    if (!(error instanceof pg.DatabaseError) || LOST.test(error.code ?? "")) throw error;
    return writeProblemOf(error) ?? { reason: "writes fail", advice: `Postgres reports: ${error.message}.` };
  } finally {
    await client.query("ROLLBACK").catch((error: Error) => {
      broken = error;
    });
    client.release(broken);
  }
}
