import { createTRPCClient, httpBatchLink, httpLink, splitLink, TRPCClientError } from "@trpc/client";
import type { inferRouterInputs, inferRouterOutputs } from "@trpc/server";
import type { ConsoleRouter } from "../router.js";

export type Inputs = inferRouterInputs<ConsoleRouter>;
export type Outputs = inferRouterOutputs<ConsoleRouter>;

/** Less than the 50 calls that the service takes in one request. */
const MAX_BATCH_CALLS = 40;

const TIMEOUT_MS = 30_000;

// As POST, so that the input of queries is in no URL.
const options = {
  url: "/console/trpc",
  methodOverride: "POST",
  fetch: (url: RequestInfo | URL | string, init: object = {}) =>
    fetch(url, { ...init, signal: AbortSignal.timeout(TIMEOUT_MS) }),
} as const;

/** The core, as the operator. The session's cookie authenticates the calls. */
export const core = createTRPCClient<ConsoleRouter>({
  links: [
    // A list looks up the listing of each row: one request for all. Other calls do not wait for each other.
    splitLink({
      condition: ({ path }) => path === "listings.getAny",
      true: httpBatchLink({ ...options, maxItems: MAX_BATCH_CALLS }),
      false: httpLink(options),
    }),
  ],
});

/** What the service says about a failed call. */
export interface Failure {
  message: string;
  /** 0: no answer. */
  status: number;
  /** The rejected fields of the input. */
  fields: { field: string; issue: string }[];
  /** Also in the log lines of the request. */
  correlationId: string | undefined;
}

const NO_ANSWER = "The service does not answer. It may be restarting.";

export class CallFailed extends Error implements Failure {
  readonly status: number;
  readonly fields: Failure["fields"];
  readonly correlationId: string | undefined;

  constructor({ message, status, fields, correlationId }: Failure) {
    super(message);
    this.status = status;
    this.fields = fields;
    this.correlationId = correlationId;
  }
}

export function toFailure(error: unknown): Failure {
  if (error instanceof CallFailed) return error;
  const data = error instanceof TRPCClientError ? (error as TRPCClientError<ConsoleRouter>).data : undefined;
  if (!data) return { message: NO_ANSWER, status: 0, fields: [], correlationId: undefined };
  const { httpStatus, errors = [], correlationId } = data;
  return { message: (error as Error).message, status: httpStatus, fields: errors, correlationId };
}

/** Calls a path of the console that is not tRPC. */
export async function request(method: string, path: string, body?: object): Promise<unknown> {
  const response = await fetch(path, {
    method,
    signal: AbortSignal.timeout(TIMEOUT_MS),
    ...(body && { body: JSON.stringify(body), headers: { "Content-Type": "application/json" } }),
  }).catch(() => {
    throw new CallFailed({ message: NO_ANSWER, status: 0, fields: [], correlationId: undefined });
  });
  const json = response.status === 204 ? {} : await response.json().catch(() => ({}));
  if (response.ok) return json;
  const { message = response.statusText, errors = [], correlationId } = json;
  throw new CallFailed({ message, status: response.status, fields: errors, correlationId });
}
