import { startConstantRateLoad } from "../support/constant-rate-load.js";
import type { Server } from "./servers.js";

export interface BenchRequest {
  /** Path and query. */
  target: string;
  key: string;
  /** JSON body of a create. Each time it is sent, `{n}` becomes a unique number and `{t}` a unique "mm:ss.sss". */
  body?: string;
  /** By default, each create gets a new one. */
  idempotencyKey?: string | undefined;
}

/** The request with a unique body and Idempotency-Key; the same that wrk sends. */
export function withSerial(request: BenchRequest, serial: number): BenchRequest {
  const t = new Date(serial).toISOString().slice(14, 23);
  const body = request.body?.replaceAll("{n}", String(serial)).replaceAll("{t}", t);
  return { idempotencyKey: `bench-${serial}`, ...request, ...(body !== undefined && { body }) };
}

/** Headers of HTTP itself, which Express and Node.js do not always send as Fastify does. */
const TRANSPORT = new Set(["date", "connection", "keep-alive", "content-length", "transfer-encoding"]);

export interface BenchResponse {
  status: number;
  type: string | null;
  replayed: boolean;
  /** Sorted names. */
  headers: string[];
  text: string;
}

export async function send(
  { url }: Server,
  { target, key, body, idempotencyKey }: BenchRequest,
): Promise<BenchResponse> {
  const response = await fetch(url + target, {
    headers: {
      Authorization: `Bearer ${key}`,
      ...(body && { "Content-Type": "application/json" }),
      ...(idempotencyKey && { "Idempotency-Key": idempotencyKey }),
    },
    ...(body && { method: "POST", body }),
  });
  return {
    status: response.status,
    type: response.headers.get("content-type"),
    replayed: response.headers.has("idempotent-replayed"),
    headers: [...response.headers.keys()].filter((name) => !TRANSPORT.has(name)),
    text: await response.text(),
  };
}

const CREATES_PER_SECOND = 100;

/** Sends CREATES_PER_SECOND at a steady rate. Returns a function that stops it and rejects if a create failed. */
export function startCreates(server: Server, requests: readonly BenchRequest[], firstSerial: number) {
  let sent = 0;
  const load = startConstantRateLoad(CREATES_PER_SECOND, () => {
    const request = requests[sent % requests.length] as BenchRequest;
    return send(server, withSerial(request, firstSerial + sent++));
  });
  return async (): Promise<void> => {
    const { outcomes } = await load.stop();
    if ([...outcomes.keys()].some((outcome) => outcome !== 201))
      throw new Error(`${server.name}: creates got ${JSON.stringify([...outcomes])}`);
  };
}
