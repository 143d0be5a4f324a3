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

/** The unfinished responses of each connection, in the order in which they are sent. */
const unfinished = new WeakMap<Duplex, Set<ServerResponse>>();

/** The response of a connection that is sent next, if any. */
export const firstUnfinished = (socket: Duplex): ServerResponse | undefined => {
  const [first] = unfinished.get(socket) ?? [];
  return first;
};

/**
 * Whether to answer a request. Closes a connection that has too many unfinished responses, or whose client does not read them.
 * Node parses at once what it has received together, up to 64 KiB, so requests of a closed connection still arrive.
 */
export function isAdmitted(req: IncomingMessage, res: ServerResponse): boolean {
  const { socket } = req;
  const responses = unfinished.get(socket) ?? new Set();
  if (socket.destroyed || responses.size >= MAX_UNFINISHED) {
    socket.destroy();
    // Node would destroy it later with an error, whose stack takes half of the time that the request does.
    req.destroy();
    return false;
  }
  unfinished.set(socket, responses.add(res));
  let timer: NodeJS.Timeout | undefined;
  res.once("prefinish", () => {
    timer = setTimeout(() => socket.destroy(), READ_TIMEOUT_MS);
  });
  res.once("close", () => {
    clearTimeout(timer);
    responses.delete(res);
  });
  return true;
}
