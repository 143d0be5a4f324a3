import { type Database, openDatabase } from "./database.js";
import { issueKeys } from "./keys.js";
import type { Operation } from "./operation.js";
import { createOperations } from "./operations.js";
import { type Server, type ServerName, type StartOptions, startServer } from "./servers.js";

export interface Session {
  database: Database;
  operations: Operation[];
  /** Starts a server on the database. It is stopped at the end of the session if not before. */
  start(name: ServerName, options?: StartOptions): Promise<Server>;
}

/** Runs `work` on a database with this many forms, then stops the servers it started. */
export async function withSession(forms: number, work: (session: Session) => Promise<void>): Promise<void> {
  const database = await openDatabase(forms);
  const servers: Server[] = [];
  try {
    const keys = await issueKeys(database.client);
    await work({
      database,
      operations: await createOperations(database.client, keys),
      async start(name, options) {
        const server = await startServer(name, database.url, options);
        servers.push(server);
        return server;
      },
    });
  } finally {
    await Promise.all(servers.map((server) => server.stop()));
    await database.close();
  }
}

/** Returns the operation with this id; throws if there is none. */
export function findOperation({ operations }: Session, id: string): Operation {
  const found = operations.find((candidate) => candidate.id === id);
  if (!found) throw new Error(`There is no operation ${id}.`);
  return found;
}
