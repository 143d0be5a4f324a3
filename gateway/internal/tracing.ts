import {
  context,
  DiagLogLevel,
  diag,
  propagation,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  type Tracer,
  trace,
} from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { detectResources, envDetector, resourceFromAttributes } from "@opentelemetry/resources";
import {
  BatchSpanProcessor,
  NodeTracerProvider,
  ParentBasedSampler,
  type Sampler,
  SamplingDecision,
} from "@opentelemetry/sdk-trace-node";
import type { RequestHandler } from "express";
import type { Logger } from "pino";
import type { ObserveStatement } from "../../server/database/db.js";
import { waitAtMost } from "../../server/timeout.js";

/** Timeout for sending the last spans. */
const SHUTDOWN_SECONDS = 2;

interface Tracing {
  traceRequests: RequestHandler;
  observeStatement: ObserveStatement;
  /** Sends the remaining spans and stops. */
  stop(): Promise<void>;
}

/**
 * Sends spans of this share of requests, from 0 to 1, and of their statements by OTLP. Loaded only if OTEL_* settings enable
 * it.
 */
export function startTracing(log: Logger, sampledShare: number): Tracing {
  diag.setLogger(diagLogger(log), DiagLogLevel.WARN);
  const provider = new NodeTracerProvider({
    resource: resourceFromAttributes({ "service.name": "guest-forms" }).merge(
      detectResources({ detectors: [envDetector] }),
    ),
    sampler: sampleRequests(sampledShare),
    spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())],
  });
  provider.register();
  const tracer = provider.getTracer("guest-forms");
  return {
    traceRequests: traceRequests(tracer),
    observeStatement: observeStatements(tracer),
    stop: () => waitAtMost(SHUTDOWN_SECONDS, provider.shutdown()).catch(() => {}),
  };
}

/**
 * Samples a random share of requests, whatever their `traceparent` header says: its flags come from strangers, and so does
 * its trace id, on which OpenTelemetry's own ratio depends. The spans of a request's statements follow the request.
 */
function sampleRequests(share: number): Sampler {
  const root: Sampler = {
    shouldSample: () => ({
      decision: Math.random() < share ? SamplingDecision.RECORD_AND_SAMPLED : SamplingDecision.NOT_RECORD,
    }),
    toString: () => `Random{${share}}`,
  };
  return new ParentBasedSampler({ root, remoteParentSampled: root, remoteParentNotSampled: root });
}

const WARN_INTERVAL_MS = 60_000;

/** Logs warnings of OpenTelemetry, at most one per interval. */
function diagLogger(log: Logger) {
  let lastWarnedAt = Number.NEGATIVE_INFINITY;
  const warn = (reason: string) => {
    if (performance.now() - lastWarnedAt < WARN_INTERVAL_MS) return;
    lastWarnedAt = performance.now();
    log.warn({ reason }, "traces cannot be sent");
  };
  const ignore = () => {};
  return { error: warn, warn, info: ignore, debug: ignore, verbose: ignore };
}

/** Starts a span per request, as a child of its `traceparent` header. Its name becomes the operation, once known. */
function traceRequests(tracer: Tracer): RequestHandler {
  return (req, res, next) => {
    const { locals } = res;
    const parent = propagation.extract(ROOT_CONTEXT, req.headers);
    const attributes = {
      "http.request.method": req.method,
      "guest_forms.correlation_id": locals.correlationId,
    };
    const span = tracer.startSpan("request", { kind: SpanKind.SERVER, attributes }, parent);
    res.once("close", () => {
      const operation = locals.operation?.name ?? locals.procedure;
      if (operation) span.updateName(operation).setAttribute("guest_forms.operation", operation);
      if (locals.principal) span.setAttribute("guest_forms.key_id", locals.principal.keyId);
      span.setAttribute("http.response.status_code", res.statusCode);
      if (res.statusCode >= 500) span.setStatus({ code: SpanStatusCode.ERROR });
      span.end();
    });
    context.with(trace.setSpan(parent, span), next);
  };
}

/** A span per statement of a request, with the statement's text and no values. */
function observeStatements(tracer: Tracer): ObserveStatement {
  return (text) => {
    if (!trace.getActiveSpan()) return () => {};
    const operation = /\w+/.exec(text)?.[0].toUpperCase() ?? "query";
    const attributes = {
      "db.system.name": "postgresql",
      "db.operation.name": operation,
      "db.query.text": text,
    };
    const span = tracer.startSpan(operation, { kind: SpanKind.CLIENT, attributes });
    return (error) => {
      // Only the code: the message may quote values.
      const { code } = (error ?? {}) as { code?: string };
      if (code) span.setAttribute("db.response.status_code", code);
      if (error !== undefined) span.setStatus({ code: SpanStatusCode.ERROR });
      span.end();
    };
  };
}
