/** What the console has a page for. */
type Topic = "failed emails" | "bounced emails" | "endpoints" | "listings";

/** What is wrong and what to do: with a command, or on the console's page about the topic. */
interface TopicProblem {
  found: string;
  advice: string;
  topic: Topic;
  /** Of what it is about, if the topic has a page for each. */
  ids?: string[];
}

/** A sentence with what is wrong and what to do, or both apart. */
export type Problem = string | TopicProblem;

export interface CheckResult {
  status: "ok" | "warning" | "failed";
  /** What was found and, unless ok, what to do. */
  message: string;
  /** The parts of the message, if it is about a topic. */
  problems?: Problem[];
}

export const ok = (message: string): CheckResult => ({ status: "ok", message });
export const warning = (message: string): CheckResult => ({ status: "warning", message });
export const failed = (message: string): CheckResult => ({ status: "failed", message });

/** A warning with the problems among these; ok if there are none. */
export function warnOf(found: readonly (Problem | false)[], ifNone: string): CheckResult {
  const problems = found.filter((problem) => problem !== false);
  if (problems.length === 0) return ok(ifNone);
  const texts = problems.map((problem) =>
    typeof problem === "string" ? problem : `${problem.found} ${problem.advice}`,
  );
  const hasTopic = problems.some((problem) => typeof problem !== "string");
  return { ...warning(texts.join(" ")), ...(hasTopic && { problems }) };
}
