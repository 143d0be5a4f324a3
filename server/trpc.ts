import { initTRPC, type TRPCError } from "@trpc/server";
import { ZodError, type ZodObject } from "zod";
import type {
  Context,
  GuestPagePrincipal,
  HolderServices,
  InAppPrincipal,
  OperatorPrincipal,
  Principal,
  ScopedPrincipal,
  Services,
} from "./access/context.js";
import { toServiceError } from "./database/failures.js";
import { type ErrorCode, fieldErrorsOf, invalid, ServiceError } from "./errors.js";

/**
 * The metadata that trpc-to-openapi reads. Its own type would make users of these types compile its adapters for frameworks
 * that are not installed.
 */
interface OpenApi {
  method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  path: `/${string}`;
  operationId?: string;
  tags?: string[];
  summary?: string;
  description?: string;
  successDescription?: string;
  requestHeaders?: ZodObject;
  /** Headers of a success, besides `Location`. */
  responseHeaders?: ZodObject;
}

/** What the gateway and the OpenAPI document need to know about a procedure that is a REST operation. */
export type RestMeta = {
  openapi: OpenApi;
  /** HTTP status of a success. 204 has no body: the output is `z.void()`. */
  status: 200 | 201 | 202 | 204;
  /** Template of the `Location` header of a success; `{name}` is replaced by that property of the result. */
  location?: `/${string}` | undefined;
  /** Errors it can return, besides those common to all operations. */
  codes: readonly ErrorCode[];
  /** When it returns an error, for the reference. Default: the condition in `errors.ts`. */
  when?: Partial<Record<ErrorCode, string>>;
  /** Input in the code samples. Default: the examples of its fields. */
  example?: Record<string, unknown> | undefined;
};

/** Procedures without `openapi` are not part of the REST interface. */
type Meta = RestMeta | { openapi?: never };

/** Correlation ids of errors that occurred before the context was created. */
const correlationIdsByError = new WeakMap<TRPCError, string>();

/** Sets the correlation id of an error that has no context. */
export const setCorrelationId = (error: TRPCError, correlationId: string) =>
  void correlationIdsByError.set(error, correlationId);

const t = initTRPC
  .context<Context>()
  .meta<Meta>()
  .create({
    errorFormatter: ({ shape, error, ctx }) => {
      const { serviceCode, status, errors, message } = fromTrpcError(error);
      return {
        ...shape,
        message,
        data: {
          code: shape.data.code,
          httpStatus: status,
          serviceCode,
          errors,
          correlationId: ctx?.correlationId ?? correlationIdsByError.get(error),
        },
      };
    },
  });

/** Converts tRPC's errors to ServiceErrors. Their own texts are not exposed. */
export function fromTrpcError(error: TRPCError): ServiceError {
  if (error instanceof ServiceError) return error;
  if (error.code === "BAD_REQUEST" && error.cause instanceof ZodError) return invalid(fieldErrorsOf(error.cause));
  switch (error.code) {
    case "NOT_FOUND":
      return new ServiceError("RESOURCE_NOT_FOUND", { message: "There is no such procedure." });
    case "METHOD_NOT_SUPPORTED":
      return new ServiceError("RESOURCE_NOT_FOUND", {
        status: 405,
        message: "This procedure does not support this method.",
      });
    case "BAD_REQUEST":
    case "PARSE_ERROR":
      return invalid([{ field: "input", issue: "must be a valid tRPC call" }]);
    case "UNSUPPORTED_MEDIA_TYPE":
      return invalid([{ field: "Content-Type", issue: "must be application/json" }], { status: 415 });
    case "PAYLOAD_TOO_LARGE":
      return new ServiceError("PAYLOAD_TOO_LARGE");
    default:
      return toServiceError(error.cause ?? error);
  }
}

export const { router, createCallerFactory } = t;

/** Throws UNAUTHENTICATED without a principal, and FORBIDDEN with this message if it is of no kind that is allowed. */
function assertKind<Allowed extends Principal>(
  principal: Principal | null,
  allowed: readonly Allowed["kind"][],
  message: string,
): asserts principal is Allowed {
  if (!principal) throw new ServiceError("UNAUTHENTICATED");
  if (!allowed.includes(principal.kind)) throw new ServiceError("FORBIDDEN", { message });
}

function assertHasScope(principal: Principal | null): asserts principal is ScopedPrincipal {
  const message = "The operator has no scope: act as a user (over tRPC, send X-User-Id).";
  assertKind<ScopedPrincipal>(principal, ["key", "user"], message);
}

/** Like `assertHasScope`; also throws FORBIDDEN for a read-only key. */
export function assertCanWrite(principal: Principal | null): asserts principal is ScopedPrincipal {
  assertHasScope(principal);
  if (principal.kind === "key" && principal.mode !== "READ_WRITE") throw new ServiceError("FORBIDDEN");
}

function assertInApp(principal: Principal | null): asserts principal is InAppPrincipal {
  assertKind<InAppPrincipal>(
    principal,
    ["user", "operator"],
    "An API key may not do this, only a user or the operator.",
  );
}

function assertGuestPage(principal: Principal | null): asserts principal is GuestPagePrincipal {
  const message = "Only the guest's page and the operator may do this.";
  assertKind<GuestPagePrincipal>(principal, ["guest", "operator"], message);
}

function assertOperator(principal: Principal | null): asserts principal is OperatorPrincipal {
  assertKind<OperatorPrincipal>(principal, ["operator"], "Only the operator may do this.");
}

/**
 * Returns a procedure builder for the principals that `assertAllowed` accepts. `servicesFor` returns the services that the
 * procedures get. All failures become ServiceErrors.
 */
function procedureFor<Allowed extends Principal, Given extends HolderServices>(
  assertAllowed: (principal: Principal | null) => asserts principal is Allowed,
  servicesFor: (context: Context, principal: Allowed) => Given,
) {
  return t.procedure.use(async ({ ctx, next }) => {
    assertAllowed(ctx.principal);
    const { principal } = ctx;
    const result = await next({ ctx: { principal, services: servicesFor(ctx, principal) } });
    if (result.ok) return result;
    throw fromTrpcError(result.error);
  });
}

/** The services for a call in the scope of a user: its statements wait for the turn of this key holder. */
const holderServices = ({ services, signal }: Context, { userId }: ScopedPrincipal): HolderServices => ({
  ...services,
  db: services.holderLimit.bound(services.db, userId, signal),
  reads: services.holderLimit.boundReads(services.reads, userId, signal),
});

const allServices = ({ services }: Context): Services => services;

/** For keys of either mode and users. */
export const readingProcedure = procedureFor(assertHasScope, holderServices);

/** For read-write keys and users. */
export const writingProcedure = procedureFor(assertCanWrite, holderServices);

/** For users and the operator, not for keys. */
export const inAppProcedure = procedureFor(
  assertInApp,
  (context, principal): HolderServices =>
    principal.kind === "user" ? holderServices(context, principal) : context.services,
);

/** For the guest's page and the operator. */
export const guestPageProcedure = procedureFor(assertGuestPage, ({ services }): HolderServices => services);

/** For the operator only. */
export const operatorProcedure = procedureFor(assertOperator, allServices);
