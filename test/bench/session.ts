import { type Database, openDatabase } from "./database.js";
import { issueKeys } from "./keys.js";
import type { Operation } from "./operation.js";
import { operations } from "./operations.js";
import { type Server, type ServerName, type StartOptions, startServer } from "./servers.js";

export interface Session {
  database: Database;
  operations: Operation[];
  /** Starts a server on the database; it is stopped with the session at the latest. */
  start(name: ServerName, options?: StartOptions): Promise<Server>;
}

/** Runs the work on a database of that size, and stops whatever it started. */
export async function withSession(forms: number, work: (session: Session) => Promise<void>): Promise<void> {
  const database = await openDatabase(forms);
  const servers: Server[] = [];
  try {
    const keys = await issueKeys(database.client);
    await work({
      database,
      operations: await operations(database.client, keys),
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

/** The operation with this id. */
export function operation({ operations }: Session, id: string): Operation {
  const found = operations.find((candidate) => candidate.id === id);
  if (!found) throw new Error(`There is no operation ${id}.`);
  return found;
}
