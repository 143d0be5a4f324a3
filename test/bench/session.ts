import { type Database, openDatabases } from "./database.js";
import { issueKeys } from "./fill.js";
import type { Operation } from "./operations.js";
import { createOperations } from "./operations.js";
import { type Server, type ServerName, startServer } from "./servers.js";

export interface Session {
  database: Database;
  operations: Operation[];
  /** Starts a server on the database. It is stopped at the end of the session if not before. */
  start(name: ServerName): Promise<Server>;
}

/** Runs `work` on a database with this many forms, then stops the servers it started. */
export const withSession = <Outcome>(forms: number, work: (session: Session) => Promise<Outcome>): Promise<Outcome> =>
  withSessions([forms], ([session]) => work(session));

/** The same on several databases. */
export async function withSessions<const Sizes extends readonly number[], Outcome>(
  sizes: Sizes,
  work: (sessions: { [Index in keyof Sizes]: Session }) => Promise<Outcome>,
): Promise<Outcome> {
  const { databases, close } = await openDatabases(sizes);
  const servers: Server[] = [];
  const openSession = async (database: Database): Promise<Session> => ({
    database,
    operations: await createOperations(database.client, await issueKeys(database.client)),
    async start(name) {
      const server = await startServer(name, database.url);
      servers.push(server);
      return server;
    },
  });
  try {
    const sessions: Session[] = [];
    for (const database of databases) sessions.push(await openSession(database));
    return await work(sessions as { [Index in keyof Sizes]: Session });
  } finally {
    await Promise.all(servers.map((server) => server.stop()));
    await close();
  }
}

/** Returns the operation with this id; throws if there is none. */
export function findOperation({ operations }: Session, id: string): Operation {
  const found = operations.find((candidate) => candidate.id === id);
  if (!found) throw new Error(`There is no operation ${id}.`);
  return found;
}
