import { createTRPCClient, httpBatchLink, httpLink, splitLink, TRPCClientError } from "@trpc/client";
import type { inferRouterInputs, inferRouterOutputs } from "@trpc/server";
import type { ConsoleRouter } from "../router.js";

export type Inputs = inferRouterInputs<ConsoleRouter>;
export type Outputs = inferRouterOutputs<ConsoleRouter>;

/** Less than the 50 calls that the service takes in one request. */
const MAX_BATCH_CALLS = 40;

const TIMEOUT_MS = 30_000;

/** When the reader last did something in this tab. The service ends the session 30 minutes later, also if the page reads on. */
let lastInput = Date.now();
const noteInput = () => {
  lastInput = Date.now();
};
for (const type of ["pointerdown", "keydown", "wheel"])
  addEventListener(type, noteInput, { capture: true, passive: true });

const options = {
  url: "/console/trpc",
  // As POST, so that the input of queries is in no URL.
  methodOverride: "POST",
  headers: () => ({ "X-Idle-Seconds": `${Math.floor((Date.now() - lastInput) / 1000)}` }),
  fetch: (url: RequestInfo | URL | string, init: object = {}) =>
    fetch(url, { ...init, signal: AbortSignal.timeout(TIMEOUT_MS) }),
} as const;

/** The core, as the operator. The session's cookie authenticates the calls. */
export const core = createTRPCClient<ConsoleRouter>({
  links: [
    // A list looks up the listing or user of each row: one request for all. Other calls do not wait for each other.
    splitLink({
      condition: ({ path }) => path === "listings.getAny" || path === "users.get",
      true: httpBatchLink({ ...options, maxItems: MAX_BATCH_CALLS }),
      false: httpLink(options),
    }),
  ],
});

export interface FieldIssue {
  field: string;
  issue: string;
  /** Instead of the field's label and the issue. */
  sentence?: string;
}

/** What the service says about a failed call. */
export class CallFailed extends Error {
  /** 0: no answer. */
  status = 0;
  /** The rejected fields of the input. */
  fields: FieldIssue[] = [];
  /** Also in the log lines of the request. */
  correlationId: string | undefined;

  constructor(message: string, failure: Partial<Omit<CallFailed, keyof Error>> = {}) {
    super(message);
    Object.assign(this, failure);
  }
}

const noAnswer = () => new CallFailed("The service does not answer. It may be restarting.");

export function toFailure(error: unknown): CallFailed {
  if (error instanceof CallFailed) return error;
  // A bug of the page.
  if (!(error instanceof TRPCClientError)) return new CallFailed(String(error), { status: 400 });
  const { data } = error as TRPCClientError<ConsoleRouter>;
  if (!data) return noAnswer();
  const { httpStatus: status, errors: fields = [], correlationId } = data;
  return new CallFailed(error.message, { status, fields, correlationId });
}

/** Calls the path where sessions begin and end. */
export async function callSession(method: string, body?: object): Promise<{ name?: string }> {
  const response = await fetch("/console/session", {
    method,
    signal: AbortSignal.timeout(TIMEOUT_MS),
    ...(body && { body: JSON.stringify(body), headers: { "Content-Type": "application/json" } }),
  }).catch(() => {
    throw noAnswer();
  });
  const json = response.status === 204 ? {} : await response.json().catch(() => ({}));
  if (response.ok) return json;
  const { message = response.statusText, errors: fields = [], correlationId } = json;
  const retryAfter = response.headers.get("Retry-After");
  const isLimited = response.status === 429 && retryAfter !== null;
  throw new CallFailed(isLimited ? `Too many requests. Wait ${retryAfter} s.` : message, {
    status: response.status,
    fields,
    correlationId,
  });
}
