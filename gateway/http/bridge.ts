import type { IncomingMessage, ServerResponse } from "node:http";
import type { RequestHandler } from "express";
import { createOpenApiNodeHttpHandler } from "trpc-to-openapi";
import { type Context, createContext, type Services } from "../../server/access/context.js";
import { type AppRouter, appRouter } from "../../server/router.js";
import { OPERATIONS, type Operation } from "../operations/operations.js";
import { readInput } from "./input.js";
import { sendJson } from "./request.js";

/**
 * Calls the procedure of a request, through trpc-to-openapi.
 *
 * The middleware has already matched the path and read the input. So trpc-to-openapi gets a stand-in for the request
 * with the values, and writes to a stand-in for the response. It never reads from the connection, and its error bodies,
 * which quote internal messages, are discarded.
 */
export function bridge(services: Services): (operation: Operation) => RequestHandler {
  const handle = createHandler();
  return (operation) => async (req, res) => {
    const { correlationId, principal, deadline, body } = res.locals;
    const { values, headers } = readInput(operation, req, body);
    const context = createContext(services, principal, {
      correlationId,
      idempotencyKey: headers["idempotency-key"],
      signal: deadline,
    });
    const call = new Call(operation, req.path, values, context);
    const reply = new Reply();
    await handle(call, reply);
    if (call.error) throw call.error;
    // The deadline may already have sent a response.
    if (res.headersSent) return;
    sendJson(res.status(reply.statusCode).setHeaders(reply.headers), reply.body);
  };
}

function createHandler() {
  const operations = new Map(OPERATIONS.map((operation) => [operation.name, operation]));
  // Typed for Node's request and response, but uses only the members of `Call` and `Reply`.
  return createOpenApiNodeHttpHandler<AppRouter, Call & IncomingMessage, Reply & ServerResponse>({
    router: appRouter,
    createContext: ({ req }) => req.context,
    onError: ({ error, req }) => {
      req.error = error;
    },
    responseMeta: ({ paths: [name = ""] = [], ctx, data: [result], errors }) => {
      const operation = operations.get(name);
      if (!operation || errors.length > 0) return {};
      const { status, location } = operation;
      return {
        status,
        headers: {
          ...(location && { Location: fill(location, result) }),
          ...(ctx?.outcome.replayed && { "Idempotent-Replayed": "true" }),
        },
      };
    },
  }) as (call: Call, reply: Reply) => Promise<void>;
}

/** Replaces each `{name}` of a path with that property of the result. */
const fill = (template: string, result: unknown) =>
  template.replace(/\{(\w+)\}/g, (_, name) => String((result as Record<string, unknown>)[name]));

/** trpc-to-openapi reads the signal; the getter of `Request` would throw, because a call is not a real one. */
const NEVER = new AbortController().signal;

/** A request as trpc-to-openapi reads it. */
class Call {
  error: unknown;
  readonly method: string;
  readonly url: string;
  readonly headers = { get: () => "application/json" };
  readonly body: Record<string, unknown>;
  /** Each value in an array, because trpc-to-openapi drops values that are 0 or empty. */
  readonly query: Record<string, [unknown]> = {};
  readonly context: Context;
  readonly signal = NEVER;

  constructor({ method }: Operation, path: string, values: Record<string, unknown>, context: Context) {
    this.method = method;
    this.url = path;
    this.body = values;
    for (const [name, value] of Object.entries(values)) this.query[name] = [value];
    this.context = context;
  }
}
// Makes `instanceof Request` true, so trpc-to-openapi skips a conversion that costs 20 µs.
Object.setPrototypeOf(Call.prototype, Request.prototype);

/** A response as trpc-to-openapi writes it. */
class Reply {
  statusCode = 200;
  /** Undefined if the procedure returns nothing. */
  body: string | undefined;
  readonly headers = new Map<string, string>();

  setHeader(name: string, value: string): void {
    this.headers.set(name, value);
  }

  end(body: string | undefined): void {
    this.body = body;
  }
}
