import { redactUrl } from "../commands/failure.js";
import { type CheckResult, failed, ok } from "./check.js";

/** Runs `attempt` against the server at `url` and reports the result. */
export async function checkConnection(
  what: string,
  url: string,
  attempt: () => Promise<unknown>,
): Promise<CheckResult> {
  const server = `${what} at ${new URL(url).host}`;
  try {
    await attempt();
    return ok(`${server} answers.`);
  } catch (error) {
    // ECONNREFUSED of a host with several addresses has no message.
    const { message, code } = error as NodeJS.ErrnoException;
    const reason = redactUrl(message || code || String(error), url).replace(/\s+/g, " ");
    return failed(`${server} cannot be used: ${reason}`);
  }
}
