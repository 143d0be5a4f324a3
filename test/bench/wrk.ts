import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface BenchRequest {
  /** Path and query. */
  target: string;
  key: string;
  /** JSON body of a create. Each time it is sent, `{n}` becomes a unique number and `{t}` a unique "mm:ss.sss". */
  body?: string;
}

export interface LoadOptions {
  requests: readonly BenchRequest[];
  connections: number;
  seconds: number;
  /** Number before the first create's. The ranges of the loads of one run must not overlap. */
  firstSerial: number;
}

/** Results of wrk; times in microseconds. */
export interface WrkResult {
  requests: number;
  duration: number;
  /** Requests that failed, timed out, or got an error status. */
  errors: number;
  p50: number;
  p99: number;
}

/** Sends the requests in turn. Each connection sends the next one when it gets a response. */
export async function runWrk(
  baseUrl: string,
  { requests, connections, seconds, firstSerial }: LoadOptions,
): Promise<WrkResult> {
  const folder = await mkdtemp(join(tmpdir(), "guest-forms-bench-"));
  try {
    const [scriptFile, requestsFile] = [join(folder, "load.lua"), join(folder, "requests")];
    await writeFile(scriptFile, SCRIPT);
    const lines = requests.map(({ target, key, body = "" }) => `${target}\t${key}\t${body}\n`);
    await writeFile(requestsFile, lines.join(""), { mode: 0o600 });
    const args = ["-t1", `-c${connections}`, `-d${seconds}s`, "--timeout", "30s", "-s", scriptFile, baseUrl];
    const output = await spawnWrk([...args, "--", requestsFile, String(firstSerial)]);
    const line = output.split("\n").find((text) => text.startsWith("{"));
    if (!line) throw new Error(`wrk printed no result:\n${output}`);
    return JSON.parse(line) as WrkResult;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function spawnWrk(args: string[]): Promise<string> {
  const child = spawn("wrk", args, { stdio: ["ignore", "pipe", "inherit"] });
  child.once("error", () => {});
  let output = "";
  child.stdout.on("data", (chunk) => {
    output += chunk;
  });
  const [code] = await once(child, "close");
  if (code !== 0)
    throw new Error(`wrk ended with ${code}: is it installed (Debian: apt-get install wrk)?\n${output}`);
  return output;
}

const SCRIPT = `
local list, turn, serial = {}, 0, 0

function init(args)
  serial = tonumber(args[2])
  for line in io.lines(args[1]) do
    local target, key, body = line:match("^(.-)\\t(.-)\\t(.*)$")
    local headers = { ["Authorization"] = "Bearer " .. key }
    if body == "" then
      list[#list + 1] = wrk.format("GET", target, headers)
    else
      list[#list + 1] = { target = target, key = headers["Authorization"], body = body }
    end
  end
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
  local headers = {
    ["Authorization"] = next.key,
    ["Content-Type"] = "application/json",
    ["Idempotency-Key"] = "bench-" .. serial
  }
  return wrk.format("POST", next.target, headers, (next.body:gsub("{(%l)}", fresh)))
end

function done(summary, latency)
  local e = summary.errors
  print(string.format('{"requests":%d,"duration":%d,"errors":%d,"p50":%d,"p99":%d}',
    summary.requests, summary.duration, e.connect + e.read + e.write + e.status + e.timeout,
    latency:percentile(50), latency:percentile(99)))
end
`;
