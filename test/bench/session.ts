import { type Database, openDatabases } from "./database.js";
import { issueKeys } from "./fill.js";
import { createOperations, type Operation } from "./operations.js";
import { type Server, type ServerName, startServer } from "./servers.js";

export interface Session {
  database: Database;
  operations: Operation[];
  /** Starts a server on the database. It is stopped at the end of the session if not before. */
  start(name: ServerName): Promise<Server>;
}

/** Runs `work` on a database with this many forms, then stops the servers it started. */
export const withSession = <Outcome>(forms: number, work: (session: Session) => Promise<Outcome>): Promise<Outcome> =>
  withSessions([forms], ([session]) => work(session as Session));

/** The same on several databases. */
export async function withSessions<Outcome>(
  sizes: number[],
  work: (sessions: Session[]) => Promise<Outcome>,
): Promise<Outcome> {
  const { databases, close } = await openDatabases(sizes);
  const servers: Server[] = [];
  try {
    const sessions: Session[] = [];
    for (const database of databases) {
      const operations = await createOperations(database.client, await issueKeys(database.client));
      const start = async (name: ServerName) => {
        const server = await startServer(name, database.url);
        servers.push(server);
        return server;
      };
      sessions.push({ database, operations, start });
    }
    return await work(sessions);
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
