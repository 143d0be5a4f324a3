import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A request to repeat. */
export interface Request {
  /** Path and query. */
  target: string;
  key: string;
  /** Of a create: JSON, in which `{n}` is a new number and `{t}` a new "mm:ss.sss" each time it is sent. */
  body?: string;
}

export interface Load {
  requests: readonly Request[];
  connections: number;
  seconds: number;
  /** Number of the first create: no other load of the run may have come to the same. */
  serial: number;
}

/** What wrk measured; times in microseconds. */
export interface Outcome {
  requests: number;
  duration: number;
  /** Requests that were refused, failed or not answered in time. */
  errors: number;
  p50: number;
  p99: number;
}

/** Sends the requests in turn, each connection its next one as soon as it has an answer. */
export async function run(base: string, { requests, connections, seconds, serial }: Load): Promise<Outcome> {
  const folder = await mkdtemp(join(tmpdir(), "guest-forms-bench-"));
  try {
    const [script, list] = [join(folder, "load.lua"), join(folder, "requests")];
    await writeFile(script, SCRIPT);
    const lines = requests.map(({ target, key, body = "" }) => `${target}\t${key}\t${body}\n`);
    await writeFile(list, lines.join(""), { mode: 0o600 });
    const args = ["-t1", `-c${connections}`, `-d${seconds}s`, "--timeout", "30s", "-s", script, base];
    const said = await wrk([...args, "--", list, String(serial)]);
    const line = said.split("\n").find((text) => text.startsWith("{"));
    if (!line) throw new Error(`wrk gave no result:\n${said}`);
    return JSON.parse(line) as Outcome;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function wrk(args: string[]): Promise<string> {
  const child = spawn("wrk", args, { stdio: ["ignore", "pipe", "inherit"] });
  child.once("error", () => {});
  let said = "";
  child.stdout.on("data", (chunk) => {
    said += chunk;
  });
  const [code] = await once(child, "close");
  if (code !== 0)
    throw new Error(`wrk ended with ${code}: is it installed (Debian: apt-get install wrk)?\n${said}`);
  return said;
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
