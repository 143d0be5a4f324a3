import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { packageRoot } from "../../prisma/package-root.js";
import { dataFolder } from "./report.js";

export interface BenchRequest {
  /** Path and query. */
  target: string;
  key: string;
  /** JSON body of a create. Each time it is sent, `{serial}` becomes a unique number of as many characters. */
  body?: string;
  idempotencyKey?: string;
}

export interface Load {
  /** Sent in turn, again and again. */
  requests: BenchRequest[];
  /** What `{cursor}` in a target is at first. Then it is the newest `nextCursor` of a response. */
  cursor?: string | undefined;
}

const FIRST_SERIAL = 10_000_000;
const SERIALS_PER_LOAD = 50_000;

/** The request with a unique body and Idempotency-Key. */
export function withSerial(request: BenchRequest, serial: number): BenchRequest {
  const number = String(FIRST_SERIAL + serial);
  const body = request.body?.replaceAll("{serial}", number);
  return { ...request, ...(body && { body, idempotencyKey: `bench-${number}` }) };
}

export const headersOf = ({ key, body, idempotencyKey = "bench-{serial}" }: BenchRequest): Record<string, string> => ({
  Authorization: `Bearer ${key}`,
  ...(body && { "Content-Type": "application/json", "Idempotency-Key": idempotencyKey }),
});

function toHttp(request: BenchRequest): string {
  const { target, body = "" } = request;
  const headers = { Host: "localhost", ...headersOf(request), ...(body && { "Content-Length": body.length }) };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  return `${body ? "POST" : "GET"} ${target} HTTP/1.1\r\n${lines.join("")}\r\n${body}`;
}

/** Results of wrk; times in microseconds. `errors`: requests that failed, timed out, or got an error status. */
type LoadResult = Record<"requests" | "duration" | "errors" | "p50" | "p99" | "p999", number>;

const CONNECTIONS = 32;
let loads = 0;

/** Sends the requests in turn. Each connection sends the next one when it gets a response. */
export async function runLoad(url: string, { requests, cursor = "" }: Load, seconds: number): Promise<LoadResult> {
  const file = join(dataFolder(), "requests");
  writeFileSync(file, requests.map(toHttp).join("\0"), { mode: 0o600 });
  const script = join(packageRoot(), "test/bench/load.lua");
  const args = ["-t1", `-c${CONNECTIONS}`, `-d${seconds}s`, "--timeout", "30s", "-s", script, url, "--"];
  const ofScript = [file, cursor, FIRST_SERIAL + ++loads * SERIALS_PER_LOAD, CONNECTIONS].map(String);
  const { stdout } = await promisify(execFile)("wrk", [...args, ...ofScript]).catch((cause) => {
    throw new Error("wrk failed: is it installed (Debian: apt-get install wrk)?", { cause });
  });
  return JSON.parse(stdout.split("\n").find((line) => line.startsWith("{")) ?? "");
}
