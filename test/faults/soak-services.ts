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
const START_MS = 60_000;
const END_MS = 30_000;
/** Characters of its last words that are kept. */
const SAID = 2_000;

/** Runs `guest-forms` with these arguments to its end, and gives what it prints as JSON. */
export async function guestForms<Result>(env: Record<string, string>, ...args: string[]): Promise<Result> {
  const all = [CLI, ...args, "--json"];
  const { stdout } = await promisify(execFile)(process.execPath, all, { env: environment(env) });
  return JSON.parse(stdout) as Result;
}

function environment(env: Record<string, string>) {
  const { PATH, HOME, TMPDIR } = process.env;
  return { PATH, HOME, TMPDIR, ...env };
}

export interface ServiceOptions {
  /** As the report calls it. */
  name: string;
  command: string;
  args: string[];
  env: Record<string, string>;
  /** What it prints when it is ready. */
  ready: RegExp;
  /** Where its log goes. */
  folder: string;
}

/** A process that is ended and started again. */
export class Service {
  readonly name: string;
  /** How it has ended without being asked, each time. */
  readonly failures: string[] = [];
  readonly #options: ServiceOptions;
  readonly #log: WriteStream;
  #child: ChildProcess | undefined;
  #isAsked = false;

  constructor(options: ServiceOptions) {
    this.#options = options;
    this.name = options.name;
    this.#log = createWriteStream(join(options.folder, `${options.name}.log`), { flags: "a" });
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** Resolves when it is ready; rejects where it ends before. */
  async start(): Promise<void> {
    const { command, args, env, ready, name } = this.#options;
    const child = spawn(command, args, { env: environment(env), stdio: ["ignore", "pipe", "pipe"] });
    this.#child = child;
    this.#isAsked = false;
    child.stderr.pipe(this.#log, { end: false });
    let said = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      said = (said + text).slice(-SAID);
    });
    const ended = once(child, "exit").then(([code, signal]) => {
      if (!this.#isAsked) this.failures.push(`${name} ended by itself (${signal ?? code}): ${said}`);
      if (this.#child === child) this.#child = undefined;
      return "ended" as const;
    });
    const isReady = new Promise<"ready">((resolve) => {
      let printed = "";
      child.stdout.setEncoding("utf8").on("data", (text: string) => {
        printed = (printed + text).slice(-SAID);
        if (ready.test(printed)) resolve("ready");
      });
    });
    const late = new AbortController();
    const outcome = await Promise.race([
      ended,
      isReady,
      sleep(START_MS, "late" as const, { signal: late.signal }).catch(() => "late" as const),
    ]);
    late.abort();
    if (outcome !== "ready") throw new Error(`${name} did not start: see its log`);
  }

  /** Ends it by that signal; by SIGKILL where that takes too long. */
  async end(signal: NodeJS.Signals): Promise<void> {
    const child = this.#child;
    if (!child) return;
    this.#isAsked = true;
    const ended = once(child, "exit");
    child.kill(signal);
    const timer = setTimeout(() => child.kill("SIGKILL"), END_MS);
    await ended;
    clearTimeout(timer);
  }

  close(): void {
    this.#log.end();
  }
}

/** `guest-forms` with these arguments, as a service. */
export const cliService = (
  name: string,
  args: string[],
  ready: RegExp,
  env: Record<string, string>,
  folder: string,
): Service => new Service({ name, command: process.execPath, args: [CLI, ...args], env, ready, folder });

/** Whether something takes connections there. */
export function answers(port: number, host = "127.0.0.1"): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ port, host, timeout: 1_000 });
    const settle = (found: boolean) => {
      socket.destroy();
      resolve(found);
    };
    socket
      .once("connect", () => settle(true))
      .once("error", () => settle(false))
      .once("timeout", () => settle(false));
  });
}

export interface Message {
  id: string;
  to: string;
  /** As of `performance.now`. */
  at: number;
}

/** A mail server that takes everything and keeps account of it. */
export interface MailServer {
  url: string;
  received: Message[];
  close(): void;
}

export async function startMailServer(): Promise<MailServer> {
  const received: Message[] = [];
  const server = new SMTPServer({
    authOptional: true,
    disabledCommands: ["STARTTLS"],
    onData: (stream, { envelope }, done) => {
      let text = "";
      stream.setEncoding("latin1").on("data", (chunk: string) => {
        text += chunk;
      });
      stream.on("end", () => {
        const id = /^Message-ID:\s*(\S+)/im.exec(text)?.[1] ?? "none";
        received.push({ id, to: envelope.rcptTo[0]?.address ?? "", at: performance.now() });
        done();
      });
    },
  });
  // A client that is killed breaks its connection.
  server.on("error", () => {});
  server.listen(0, "127.0.0.1");
  await once(server.server, "listening");
  const { port } = server.server.address() as AddressInfo;
  return { url: `smtp://127.0.0.1:${port}`, received, close: () => server.close(() => {}) };
}
