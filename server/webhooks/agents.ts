import { constants } from "node:crypto";
import { once } from "node:events";
import http from "node:http";
import https from "node:https";
import { connect, type Socket, type TcpNetConnectOpts } from "node:net";
import { Duplex } from "node:stream";
import { DEFAULT_CIPHERS, type TLSSocket } from "node:tls";
import { RequestFilteringHttpAgent } from "request-filtering-agent";
import type { Settings } from "../config.js";
import { type FindAddresses, findLocally, findWith, openResolver, type Resolver } from "./addresses.js";
import { BoundedConnection } from "./connection.js";

// The connections to receivers.

/** Answers to the virtual machines of Azure, at a public address. */
const AZURE_METADATA = "168.63.129.16";

/** The server chooses among what is offered. Left out is what costs us much CPU time: finite fields, P-521, renegotiation. */
const CHEAP_TLS: https.AgentOptions = {
  ciphers: `${DEFAULT_CIPHERS}:!kDHE`,
  ecdhCurve: "X25519:P-256:P-384",
  secureOptions: constants.SSL_OP_NO_RENEGOTIATION,
};

export interface AgentOptions {
  resolver?: Resolver;
  /** Counted as public. */
  allowedAddresses?: string[];
}

type Open = (options: http.ClientRequestArgs) => Promise<Socket>;
type OnCreate = (error: Error | null, connection: Duplex) => void;

/** Returns the agents of requests that must end after `timeoutMs`. */
export function openAgents(
  { WEBHOOK_ALLOW_PRIVATE_ADDRESSES: allowsPrivate }: Pick<Settings, "WEBHOOK_ALLOW_PRIVATE_ADDRESSES">,
  timeoutMs: number,
  { resolver = openResolver(), allowedAddresses = [] }: AgentOptions,
) {
  const filter = new RequestFilteringHttpAgent({
    denyIPAddressList: [AZURE_METADATA],
    allowIPAddressList: allowedAddresses,
  });
  const open = allowsPrivate
    ? openWith(findLocally, connect, timeoutMs)
    : openWith(findWith(resolver), (options) => filter.createConnection(options) as Socket, timeoutMs);
  return { http: new HttpAgent(open), https: new HttpsAgent(open) };
}

const openWith =
  (find: FindAddresses, connectTo: (options: TcpNetConnectOpts) => Socket, timeoutMs: number): Open =>
  async ({ host, port }) => {
    const start = performance.now();
    const addresses = await find(host ?? "");
    const remainingMs = Math.max(Math.ceil(timeoutMs - (performance.now() - start)), 1);
    const socket = connectTo({
      host: host ?? "",
      port: Number(port),
      noDelay: true,
      lookup: (_hostname, _options, callback) => callback(null, addresses),
      autoSelectFamily: true,
      // By default every address but the last gets 250 ms.
      autoSelectFamilyAttemptTimeout: Math.ceil(remainingMs / addresses.length),
    });
    try {
      // TLS on a connection that is not open yet would stay with the first address.
      await once(socket, "connect", { signal: AbortSignal.timeout(remainingMs) });
      return socket;
    } catch (error) {
      socket.destroy();
      throw error;
    }
  };

/** Passes the connection, or the error, to a request. */
const handOver = (opening: Promise<Duplex>, onCreate: OnCreate) =>
  void opening.then(
    (connection) => onCreate(null, connection),
    (error) => onCreate(error, new Duplex()),
  );

// No keep-alive: a receiver may close an idle connection just when it is used again.
class HttpAgent extends http.Agent {
  readonly #open: Open;

  constructor(open: Open) {
    super();
    this.#open = open;
  }

  override createConnection(options: http.ClientRequestArgs, onCreate: OnCreate): undefined {
    const opening = this.#open(options).then((socket) => new BoundedConnection(socket));
    handOver(opening, onCreate);
  }
}

class HttpsAgent extends https.Agent {
  readonly #open: Open;

  constructor(open: Open) {
    super(CHEAP_TLS);
    this.#open = open;
  }

  override createConnection(options: https.RequestOptions, onCreate: OnCreate): undefined {
    handOver(this.#openTls(options), onCreate);
  }

  async #openTls(options: https.RequestOptions): Promise<Duplex> {
    const withSocket = { ...options, socket: await this.#open(options) };
    return new BoundedConnection(super.createConnection(withSocket) as TLSSocket, withSocket.socket);
  }
}
