import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";

// What one connection may hold, on the public port and the internal one.

/**
 * Responses of a connection that may be unfinished: those of requests that are in progress, and those that the client has not read.
 * Clients that do not pipeline have one.
 */
const MAX_UNFINISHED = 32;
/** How long a client may take to read a response, from its last byte on. */
const READ_TIMEOUT_MS = 30_000;
/**
 * How long a connection with too many unfinished responses stays open, without being read. If it were closed at once, its client
 * would open the next one, and to parse what that sends takes as long as to answer it.
 */
const CLOSE_DELAY_MS = 1_000;
/** Refused requests of all such connections, each of which takes about 3 kB until its connection is closed. */
const MAX_REFUSED = 20_000;

interface Connection {
  /** In the order in which they are sent. */
  readonly unfinished: Set<ServerResponse>;
  /** Requests that are not answered, because the connection is being closed. */
  readonly refused: IncomingMessage[];
}

const connections = new WeakMap<Duplex, Connection>();
/** Of all connections. */
let refusedRequests = 0;

/** The response of a connection that is sent next, if any. */
export const firstUnfinished = (socket: Duplex): ServerResponse | undefined => {
  const [first] = connections.get(socket)?.unfinished ?? [];
  return first;
};

/** Whether to answer a request. Closes a connection that has too many unfinished responses, or whose client does not read them. */
export function isAdmitted(req: IncomingMessage, res: ServerResponse): boolean {
  const { socket } = req;
  const connection = connections.get(socket) ?? { unfinished: new Set(), refused: [] };
  connections.set(socket, connection);
  const { unfinished, refused } = connection;
  if (refused.length > 0 || unfinished.size >= MAX_UNFINISHED) {
    refuse(req, connection);
    return false;
  }
  unfinished.add(res);
  let timer: NodeJS.Timeout | undefined;
  res.once("prefinish", () => {
    timer = setTimeout(() => socket.destroy(), READ_TIMEOUT_MS);
  });
  res.once("close", () => {
    clearTimeout(timer);
    unfinished.delete(res);
  });
  return true;
}

/** Node parses at once what it has received together, up to 64 KiB, so more requests follow the first one that is refused. */
function refuse(req: IncomingMessage, { refused }: Connection): void {
  const { socket } = req;
  const close = () => {
    socket.destroy();
    // Node would destroy them later with an error, whose stack takes half of the time that the request does.
    for (const one of refused) one.destroy();
  };
  refusedRequests++;
  if (refused.push(req) === 1) {
    socket.pause();
    // Node resumes it when a response is finished.
    socket.on("resume", () => socket.pause());
    const timer = setTimeout(close, CLOSE_DELAY_MS);
    socket.once("close", () => {
      clearTimeout(timer);
      refusedRequests -= refused.length;
    });
  }
  if (socket.destroyed) req.destroy();
  else if (refusedRequests > MAX_REFUSED) close();
}
