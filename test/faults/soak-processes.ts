import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { createWriteStream, type WriteStream } from "node:fs";
import type { AddressInfo } from "node:net";
import { connect } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { SMTPServer } from "smtp-server";
import { packageRoot } from "../../prisma/package-root.js";

const CLI = join(packageRoot(), "dist/gateway/cli.js");
const START_TIMEOUT_MS = 60_000;
const STOP_TIMEOUT_MS = 30_000;
/** How many characters at the end of the output are kept. */
const OUTPUT_TAIL = 2_000;

/** Runs a `guest-forms` command and returns its JSON output. */
export async function runGuestForms<Result>(env: Record<string, string>, ...args: string[]): Promise<Result> {
  const all = [CLI, ...args, "--json"];
  const { stdout } = await promisify(execFile)(process.execPath, all, { env: environment(env) });
  return JSON.parse(stdout) as Result;
}

function environment(env: Record<string, string>) {
  const { PATH, HOME, TMPDIR } = process.env;
  return { PATH, HOME, TMPDIR, ...env };
}

export interface ManagedProcessOptions {
  /** Name in the report. */
  name: string;
  command: string;
  args: string[];
  env: Record<string, string>;
  /** Matches the output when the process is ready. */
  readyPattern: RegExp;
  /** Folder of its log. */
  folder: string;
}

/** A process that can be stopped and restarted. */
export class ManagedProcess {
  readonly name: string;
  /** Exits that `stop` did not cause. */
  readonly unexpectedExits: string[] = [];
  readonly #options: ManagedProcessOptions;
  readonly #log: WriteStream;
  #child: ChildProcess | undefined;
  #isStopping = false;

  constructor(options: ManagedProcessOptions) {
    this.#options = options;
    this.name = options.name;
    this.#log = createWriteStream(join(options.folder, `${options.name}.log`), { flags: "a" });
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** Resolves when it is ready; rejects if it exits first. */
  async start(): Promise<void> {
    const { command, args, env, readyPattern, name } = this.#options;
    const child = spawn(command, args, { env: environment(env), stdio: ["ignore", "pipe", "pipe"] });
    this.#child = child;
    this.#isStopping = false;
    child.stderr.pipe(this.#log, { end: false });
    let stderr = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      stderr = (stderr + text).slice(-OUTPUT_TAIL);
    });
    const exited = once(child, "exit").then(([code, signal]) => {
      if (!this.#isStopping)
        this.unexpectedExits.push(`${name} exited unexpectedly (${signal ?? code}): ${stderr}`);
      if (this.#child === child) this.#child = undefined;
      return "exited" as const;
    });
    const isReady = new Promise<"ready">((resolve) => {
      let stdout = "";
      child.stdout.setEncoding("utf8").on("data", (text: string) => {
        stdout = (stdout + text).slice(-OUTPUT_TAIL);
        if (readyPattern.test(stdout)) resolve("ready");
      });
    });
    const timeout = new AbortController();
    const outcome = await Promise.race([
      exited,
      isReady,
      sleep(START_TIMEOUT_MS, "timeout" as const, { signal: timeout.signal }).catch(() => "timeout" as const),
    ]);
    timeout.abort();
    if (outcome !== "ready") throw new Error(`${name} did not start: see its log`);
  }

  /** Sends the signal and waits for the exit; sends SIGKILL after a timeout. */
  async stop(signal: NodeJS.Signals): Promise<void> {
    const child = this.#child;
    if (!child) return;
    this.#isStopping = true;
    const exited = once(child, "exit");
    child.kill(signal);
    const timer = setTimeout(() => child.kill("SIGKILL"), STOP_TIMEOUT_MS);
    await exited;
    clearTimeout(timer);
  }

  close(): void {
    this.#log.end();
  }
}

/** A managed `guest-forms` process. */
export const createCliProcess = (
  name: string,
  args: string[],
  readyPattern: RegExp,
  env: Record<string, string>,
  folder: string,
): ManagedProcess =>
  new ManagedProcess({ name, command: process.execPath, args: [CLI, ...args], env, readyPattern, folder });

/** Whether a server accepts connections on this port. */
export function acceptsConnections(port: number, host = "127.0.0.1"): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ port, host, timeout: 1_000 });
    const finish = (isConnected: boolean) => {
      socket.destroy();
      resolve(isConnected);
    };
    socket
      .once("connect", () => finish(true))
      .once("error", () => finish(false))
      .once("timeout", () => finish(false));
  });
}

export interface ReceivedEmail {
  messageId: string;
  to: string;
  /** `performance.now()` of its arrival. */
  at: number;
}

/** A mail server that accepts and records every email. */
export interface MailServer {
  url: string;
  received: ReceivedEmail[];
  close(): void;
}

export async function startMailServer(): Promise<MailServer> {
  const received: ReceivedEmail[] = [];
  const server = new SMTPServer({
    authOptional: true,
    disabledCommands: ["STARTTLS"],
    onData: (stream, { envelope }, done) => {
      let text = "";
      stream.setEncoding("latin1").on("data", (chunk: string) => {
        text += chunk;
      });
      stream.on("end", () => {
        const messageId = /^Message-ID:\s*(\S+)/im.exec(text)?.[1] ?? "none";
        received.push({ messageId, to: envelope.rcptTo[0]?.address ?? "", at: performance.now() });
        done();
      });
    },
  });
  // Connection errors of killed workers.
  server.on("error", () => {});
  server.listen(0, "127.0.0.1");
  await once(server.server, "listening");
  const { port } = server.server.address() as AddressInfo;
  return { url: `smtp://127.0.0.1:${port}`, received, close: () => server.close(() => {}) };
}
