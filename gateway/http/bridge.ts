import type { IncomingMessage, ServerResponse } from "node:http";
import type { RequestHandler } from "express";
import { createOpenApiNodeHttpHandler } from "trpc-to-openapi";
import { type Context, createContext, type Services } from "../../server/context.js";
import { type FieldError, faultsOf, invalid } from "../../server/errors.js";
import { appRouter } from "../../server/router.js";
import { sendJson } from "./envelope.js";
import type { Operation } from "./operations.js";
import { readQuery } from "./query.js";

/**
 * Calls the procedure of a request that the layers above have found well-formed. A write goes through trpc-to-openapi. It
 * gets the request as a plain value, and answers into one: so nothing of its own reading of HTTP, and none of its
 * error bodies, can reach a client. A read goes past it, for it would encode the answer, which is JSON already, once more,
 * and its part is a tenth of a fetch: path, query and input are judged before it and after it anyway.
 */
export function callOperation(services: Services): RequestHandler {
  const handle = createOpenApiNodeHttpHandler({
    router: appRouter,
    createContext: ({ req }) => (req as unknown as Call).context,
    onError: ({ error, req }) => {
      (req as unknown as Call).error = error;
    },
  });
  return async (req, res) => {
    const { locals } = res;
    const { operation, match } = locals;
    if (!operation) throw new Error("an operation is matched before it is called");
    const { values, faults } = readInput(operation, locals);
    const headers = readHeaders(operation, req.headersDistinct);
    const all = [...locals.faults, ...faults, ...headers.faults];
    if (all.length > 0) {
      const judged = operation.input.safeParse({ ...values, ...match.params });
      throw invalid([...(judged.success ? [] : faultsOf(judged.error)), ...all]);
    }
    const context = createContext(services, locals.principal, {
      correlationId: locals.correlationId,
      idempotencyKey: headers.values["idempotency-key"],
      signal: locals.signal,
    });
    if (!operation.writes)
      return sendJson(res, await read(operation, context, { ...values, ...match.params }));
    const call = new Call(operation.method, locals.path, values, context);
    const reply = new Reply();
    await handle(call as unknown as IncomingMessage, reply as unknown as ServerResponse);
    if (call.error) throw call.error;
    if (operation.method === "POST") {
      const { id } = JSON.parse(reply.body) as { id: string };
      res.status(201).setHeader("Location", `${locals.path}/${id}`);
      if (context.outcome.replayed) res.setHeader("Idempotent-Replayed", "true");
    }
    sendJson(res, reply.body);
  };
}

/** The JSON text that a read answers with. */
const read = ({ name, procedure }: Operation, ctx: Context, input: object) =>
  procedure({
    path: name,
    type: "query",
    ctx,
    getRawInput: async () => input,
    signal: NEVER,
    batchIndex: 0,
  }) as Promise<string>;

function readInput(operation: Operation, locals: Express.Locals) {
  if (operation.readsQuery) return readQuery(locals.query, operation);
  if (!operation.writes) return { values: {}, faults: [] };
  // The path's parameters would hide properties of the same name.
  const values = { ...locals.body };
  const faults: FieldError[] = [];
  for (const name of operation.params) {
    if (Object.hasOwn(values, name)) faults.push({ field: name, issue: "is not a known property" });
    delete values[name];
  }
  return { values, faults };
}

/** The headers an operation declares, each of them sent at most once and as its schema says. */
function readHeaders(operation: Operation, sent: NodeJS.Dict<string[]>) {
  const values: Record<string, string> = {};
  const faults: FieldError[] = [];
  for (const [name, schema] of Object.entries(operation.headers?.shape ?? {})) {
    const [value, ...more] = sent[name.toLowerCase()] ?? [];
    if (value === undefined) continue;
    const judged = schema.safeParse(value);
    if (more.length > 0) faults.push({ field: name, issue: "must be sent once" });
    else if (!judged.success)
      faults.push({ field: name, issue: judged.error.issues[0]?.message ?? "is not valid" });
    else values[name.toLowerCase()] = value;
  }
  return { values, faults };
}

/** No operation is broken off half-way: what was begun for a client that left is finished. */
const NEVER = new AbortController().signal;

/** A write as trpc-to-openapi reads it. */
class Call {
  error: unknown;
  readonly method: string;
  readonly url: string;
  readonly headers = { get: () => "application/json" };
  readonly signal = NEVER;
  readonly body: Record<string, unknown>;
  readonly context: Context;

  constructor(method: string, url: string, values: Record<string, unknown>, context: Context) {
    this.method = method;
    this.url = url;
    this.body = values;
    this.context = context;
  }
}
// Passing for a fetch Request, it is not turned into one, which would cost more than the call.
Object.setPrototypeOf(Call.prototype, Request.prototype);

/** What trpc-to-openapi answers with; of its headers none is kept. */
class Reply {
  statusCode = 200;
  body = "";
  setHeader(): void {}
  end(body: string): void {
    this.body = body;
  }
}
