import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import type { BenchRequest } from "./requests.js";

interface LoadOptions {
  requests: readonly BenchRequest[];
  connections: number;
  /** Includes CONNECT_MS, in which nothing is sent; `WrkResult.duration` does not. */
  seconds: number;
  /** Number before the first create's. The ranges of the loads of one run must not overlap. */
  firstSerial: number;
  /** Starts with the first request, and replaces its cursor by the `nextCursor` of each response that has one. */
  followsTail?: boolean | undefined;
}

/** Results of wrk; times in microseconds. */
export interface WrkResult {
  requests: number;
  duration: number;
  /** Requests that failed, timed out, or got an error status. */
  errors: number;
  p50: number;
  p99: number;
  p999: number;
}

/**
 * Time from opening the connections to the first request. Node.js accepts one connection per turn of its event loop, so under
 * load the last of many would wait long, and p99 would measure that.
 */
const CONNECT_MS = 200;

/** Sends the requests in turn. Each connection sends the next one when it gets a response. */
export async function runWrk(
  baseUrl: string,
  { requests, connections, seconds, firstSerial, followsTail = false }: LoadOptions,
): Promise<WrkResult> {
  const folder = await mkdtemp(join(tmpdir(), "guest-forms-bench-"));
  try {
    const [scriptFile, requestsFile] = [join(folder, "load.lua"), join(folder, "requests")];
    await writeFile(scriptFile, SCRIPT);
    const lines = requests.map(
      ({ target, key, body = "", idempotencyKey = "" }) => `${[target, key, body, idempotencyKey].join("\t")}\n`,
    );
    await writeFile(requestsFile, lines.join(""), { mode: 0o600 });
    const args = ["-t1", `-c${connections}`, `-d${seconds}s`, "--timeout", "30s", "-s", scriptFile, baseUrl];
    const ofScript = [firstSerial, followsTail, connections, CONNECT_MS].map(String);
    const { stdout } = await promisify(execFile)("wrk", [...args, "--", requestsFile, ...ofScript]).catch((cause) => {
      throw new Error("wrk failed: is it installed (Debian: apt-get install wrk)?", { cause });
    });
    const line = stdout.split("\n").find((text) => text.startsWith("{"));
    if (!line) throw new Error(`wrk printed no result:\n${stdout}`);
    const result = JSON.parse(line) as WrkResult;
    return { ...result, duration: result.duration - CONNECT_MS * 1000 };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

const SCRIPT = `
local list, turn, serial, list_headers = {}, 0, 0, nil

function init(args)
  serial = tonumber(args[2])
  for line in io.lines(args[1]) do
    local target, key, body, idempotency_key = line:match("^(.-)\\t(.-)\\t(.-)\\t(.*)$")
    local headers = { ["Authorization"] = "Bearer " .. key }
    if body == "" then
      list_headers = headers
      list[#list + 1] = wrk.format("GET", target, headers)
    else
      headers["Content-Type"] = "application/json"
      if idempotency_key == "" then
        list[#list + 1] = { target = target, headers = headers, body = body }
      else
        headers["Idempotency-Key"] = idempotency_key
        list[#list + 1] = wrk.format("POST", target, headers, body)
      end
    end
  end
  if args[3] == "true" then response = follow end
  unopened, connect_ms = tonumber(args[4]), tonumber(args[5])
end

-- Called before each request of each connection.
function delay()
  if unopened == 0 then return 0 end
  unopened = unopened - 1
  return connect_ms
end

function follow(status, headers, body)
  local cursor = body:match('"nextCursor":"(.-)"')
  if cursor then list[1] = wrk.format("GET", "/v1/forms?cursor=" .. cursor, list_headers) end
end

function request()
  turn = turn % #list + 1
  local next = list[turn]
  if type(next) == "string" then return next end
  serial = serial + 1
  local fresh = {
    n = tostring(serial),
    t = string.format("%02d:%02d.%03d", serial / 60000 % 60, serial / 1000 % 60, serial % 1000)
  }
  next.headers["Idempotency-Key"] = "bench-" .. serial
  return wrk.format("POST", next.target, next.headers, (next.body:gsub("{(%l)}", fresh)))
end

function done(summary, latency)
  local e = summary.errors
  print(string.format('{"requests":%d,"duration":%d,"errors":%d,"p50":%d,"p99":%d,"p999":%d}',
    summary.requests, summary.duration, e.connect + e.read + e.write + e.status + e.timeout,
    latency:percentile(50), latency:percentile(99), latency:percentile(99.9)))
end
`;
