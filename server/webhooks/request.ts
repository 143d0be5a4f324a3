import { promises as dns, type LookupAddress } from "node:dns";
import http from "node:http";
import https from "node:https";
import { BlockList, isIP, type LookupFunction } from "node:net";
import { RequestFilteringHttpsAgent } from "request-filtering-agent";
import type { Settings } from "../config.js";
import { SendingFailed } from "../outbox/attempt.js";

// The HTTP request of a delivery. Owners choose the URLs, so unless WEBHOOK_ALLOW_PRIVATE_ADDRESSES is set it must not reach the
// operator's network, nor tell by its errors what is there.

/** The receiver must have answered after this time. */
const TIMEOUT_MS = 10_000;
/** Of an answer, only this much is read. */
const MAX_BODY_BYTES = 65_536;
const LOOKUP_TIMEOUT_MS = 2_000;
/** A receiver can postpone an attempt by as much as our own longest pause. */
const MAX_RETRY_AFTER_SECONDS = 6 * 3600;

/** Addresses that the agent counts as public: IPv4 in IPv6, and a range that is discarded. */
const NOT_PUBLIC = new BlockList();
NOT_PUBLIC.addSubnet("::", 96, "ipv6");
NOT_PUBLIC.addSubnet("100:0:0:1::", 64, "ipv6");

/** Answers to the virtual machines of Azure, at a public address. */
const AZURE_METADATA = "168.63.129.16";

const NO_ANSWER = `no answer within ${TIMEOUT_MS / 1000} s`;

/** The one reason for a name that does not resolve, and for an address that is refused. */
export const UNUSABLE_ADDRESS = "the host name does not resolve to a public address";

export interface Answer {
  status: number;
  body: string;
  /** Until the headers. */
  durationMs: number;
  retryAfterSeconds: number | null;
}

/** An attempt that failed: with an answer, or without one if none came. */
export class DeliveryFailed extends SendingFailed {
  readonly answer: Answer | undefined;
  /** Null if no connection was attempted. */
  readonly durationMs: number | null;

  constructor(reason: string, { answer, durationMs = null }: { answer?: Answer; durationMs?: number | null } = {}) {
    super(reason, answer?.status === GONE);
    this.answer = answer;
    this.durationMs = answer?.durationMs ?? durationMs;
  }
}

/** The status by which a receiver asks for no more events. */
const GONE = 410;

/** Why deliveries are not sent to this URL; undefined if they are. Names are resolved only when they are sent. */
export function whyUrlIsRefused(
  url: string,
  { WEBHOOK_ALLOW_PRIVATE_ADDRESSES: allowsPrivate }: Pick<Settings, "WEBHOOK_ALLOW_PRIVATE_ADDRESSES">,
): string | undefined {
  if (!URL.canParse(url)) return "must be a URL such as https://example.com/webhooks";
  const { protocol, hostname, username, password } = new URL(url);
  if (protocol !== "https:" && !(allowsPrivate && protocol === "http:")) return "must be an https URL";
  if (username || password) return "must not contain a user name or a password";
  if (!allowsPrivate && isIP(hostname.replace(/^\[|\]$/g, ""))) return "must have a host name instead of an IP address";
  return undefined;
}

interface PostOptions {
  resolver?: Resolver;
  /** Counted as public. */
  allowedAddresses?: string[];
}

export type Post = (url: string, headers: Record<string, string>, body: string) => Promise<Answer>;

/** Returns the function that sends a delivery. It resolves to the answer if that is 2xx, and otherwise rejects with DeliveryFailed. */
export function createPost(
  settings: Pick<Settings, "WEBHOOK_ALLOW_PRIVATE_ADDRESSES">,
  { resolver = new dns.Resolver({ timeout: LOOKUP_TIMEOUT_MS, tries: 2 }), allowedAddresses = [] }: PostOptions = {},
): Post {
  // No keep-alive: a receiver may close an idle connection just when it is used again. `dns.lookup` would occupy one of the four
  // threads of the process while a name server does not answer.
  const options = settings.WEBHOOK_ALLOW_PRIVATE_ADDRESSES
    ? {}
    : {
        agent: new RequestFilteringHttpsAgent({
          denyIPAddressList: [AZURE_METADATA],
          allowIPAddressList: allowedAddresses,
        }),
        lookup: lookupWith(resolver),
      };
  return async (url, headers, body) => {
    if (whyUrlIsRefused(url, settings)) throw new DeliveryFailed(UNUSABLE_ADDRESS);
    const answer = await send(new URL(url), { ...options, headers }, body);
    if (answer.status >= 200 && answer.status < 300) return answer;
    const hint = answer.status >= 300 && answer.status < 400 ? ": redirects are not followed" : "";
    throw new DeliveryFailed(`answered ${answer.status}${hint}`, { answer });
  };
}

type Resolver = Pick<dns.Resolver, "resolve4" | "resolve6">;

/** A lookup that neither reads the machine's hosts file nor its search domains, and finds all addresses of a name. */
const lookupWith =
  (resolver: Resolver): LookupFunction =>
  (hostname, { all }, callback) => {
    const v4 = resolver.resolve4(hostname).then((found) => found.map((address) => ({ address, family: 4 })));
    const v6 = resolver.resolve6(hostname).then((found) => found.map((address) => ({ address, family: 6 })));
    void Promise.allSettled([v4, v6]).then((results) => {
      const addresses: LookupAddress[] = results.flatMap((result) =>
        result.status === "fulfilled" ? result.value : [],
      );
      const [first] = addresses;
      const isRefused = addresses.some(({ address, family }) => family === 6 && NOT_PUBLIC.check(address, "ipv6"));
      // Without a code, like the agent's refusal.
      if (!first || isRefused) callback(new Error(UNUSABLE_ADDRESS), []);
      else if (all) callback(null, addresses);
      else callback(null, first.address, first.family);
    });
  };

function send(url: URL, options: https.RequestOptions, body: string): Promise<Answer> {
  const start = performance.now();
  const elapsed = () => Math.round(performance.now() - start);
  return new Promise((resolve, reject) => {
    const { request } = url.protocol === "https:" ? https : http;
    const sending = request(url, { ...options, method: "POST" });
    /** Ends the attempt, whatever was or was not received until then. */
    let end = () => reject(new DeliveryFailed(NO_ANSWER, { durationMs: elapsed() }));
    let isAnswered = false;
    const timer = setTimeout(() => {
      end();
      sending.destroy();
    }, TIMEOUT_MS);
    // From an answer on, its status decides, even if the body does not end.
    sending.on("error", (error) => (isAnswered ? end() : reject(toFailure(error, elapsed()))));
    sending.on("upgrade", (_response, socket) => {
      reject(new DeliveryFailed("answered 101", { durationMs: elapsed() }));
      socket.destroy();
    });
    sending.on("close", () => {
      clearTimeout(timer);
      end();
    });
    sending.on("response", (response) => {
      const { statusCode: status = 0, headers } = response;
      const durationMs = elapsed();
      const chunks: Buffer[] = [];
      let bytes = 0;
      isAnswered = true;
      end = () => {
        const retryAfterSeconds = parseRetryAfter(headers["retry-after"]);
        resolve({ status, body: Buffer.concat(chunks).toString("utf8"), durationMs, retryAfterSeconds });
      };
      response.on("data", (chunk: Buffer) => {
        chunks.push(chunk);
        bytes += chunk.length;
        if (bytes >= MAX_BODY_BYTES) response.destroy();
      });
      response.on("error", () => {});
      response.on("close", () => end());
    });
    sending.end(body);
  });
}

/** The seconds of a Retry-After header (RFC 9110, 10.2.3); null if there is none. */
function parseRetryAfter(header: string | undefined): number | null {
  if (header === undefined) return null;
  const seconds = /^\d{1,9}$/.test(header) ? Number(header) : (Date.parse(header) - Date.now()) / 1000;
  return Number.isFinite(seconds) ? Math.min(Math.max(Math.ceil(seconds), 0), MAX_RETRY_AFTER_SECONDS) : null;
}

const REASONS: Record<string, string> = {
  ECONNREFUSED: "connection refused",
  ECONNRESET: "the connection was closed without an answer",
  EPIPE: "the connection was closed without an answer",
};

/** Errors of the lookup and of the agent's filter have no code, those of a connection have one. */
function toFailure(error: NodeJS.ErrnoException, durationMs: number): DeliveryFailed {
  const { code } = error;
  if (code === undefined) return new DeliveryFailed(UNUSABLE_ADDRESS);
  return new DeliveryFailed(REASONS[code] ?? `the request failed: ${code}`, { durationMs });
}
