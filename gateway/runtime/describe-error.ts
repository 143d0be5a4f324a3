import { classify } from "../../server/database/failures.js";

/** The error itself and those that it wraps. */
const MAX_ERRORS = 4;
const MAX_TEXT_CHARACTERS = 800;
const MAX_FACT_CHARACTERS = 100;
const MAX_STACK_CHARACTERS = 10_000;
const MAX_FRAMES = 8;
const MAX_FRAME_CHARACTERS = 150;

/** What errors of Node.js, pg and nodemailer say besides their message. Not `detail`, which quotes rows. */
const FACTS = ["code", "severity", "constraint", "table", "column", "syscall", "command"];

/**
 * Describes an error for the log, in less than 16 kB. Libraries attach clients, requests and rows to their errors, so only these
 * facts are logged. Only a fault has a stack: an outage has many errors with the same reason.
 */
export function describeError(error: unknown): object {
  try {
    const isFault = classify(error) === "fault";
    const [first, ...causes] = withCauses(error).map((one) => describeOne(one, isFault));
    return causes.length > 0 ? { ...first, causes } : { ...first };
  } catch {
    return { message: "an error that cannot be described" };
  }
}

/** The error and those that it wraps, outermost first. */
function withCauses(error: unknown): unknown[] {
  const found = new Set<unknown>();
  const visit = (one: unknown) => {
    if (found.has(one) || found.size === MAX_ERRORS) return;
    found.add(one);
    if (typeof one !== "object" || one === null) return;
    const { cause, errors } = one as { cause?: unknown; errors?: unknown };
    const inner = [cause, ...(Array.isArray(errors) ? errors.slice(0, MAX_ERRORS) : [])];
    for (const wrapped of inner) if (wrapped !== undefined && wrapped !== null) visit(wrapped);
  };
  visit(error);
  return [...found];
}

function describeOne(error: unknown, isFault: boolean): object {
  if (typeof error !== "object" || error === null) return { message: shorten(String(error)) };
  const read = (name: string) => {
    const value: unknown = Reflect.get(error, name);
    return typeof value === "string" || typeof value === "number" ? String(value) : undefined;
  };
  const facts = FACTS.map((name) => [name, read(name)]).filter(([, value]) => value !== undefined);
  const stack = isFault ? read("stack") : undefined;
  return {
    type: shorten(error.constructor?.name ?? "Object", MAX_FACT_CHARACTERS),
    message: shorten(read("message") ?? ""),
    ...Object.fromEntries(facts.map(([name, value = ""]) => [name, shorten(value, MAX_FACT_CHARACTERS)])),
    ...(stack !== undefined && { stack: framesOf(stack) }),
  };
}

/** One line. Keeps the end too, which may say the reason. */
function shorten(text: string, max = MAX_TEXT_CHARACTERS): string {
  const half = max / 2;
  const cut = text.length > 4 * max ? `${text.slice(0, 2 * max)}${text.slice(-2 * max)}` : text;
  const line = cut.replace(/[\s\p{Cc}]+/gu, " ").trim();
  return line.length > max ? `${line.slice(0, half)} … ${line.slice(-half)}` : line;
}

/** Without the message, which may have many lines. */
const framesOf = (stack: string): string =>
  stack
    .slice(-MAX_STACK_CHARACTERS)
    .split("\n")
    .filter((line) => /^ +at /.test(line))
    .slice(0, MAX_FRAMES)
    .map((line) => line.slice(0, MAX_FRAME_CHARACTERS))
    .join("\n");
