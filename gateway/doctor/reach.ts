import { withoutSecrets } from "../commands/failure.js";
import { type Finding, failed, ok } from "./check.js";

/** What `attempt`, to use the server at this address, finds. */
export async function reach(what: string, url: string, attempt: () => Promise<unknown>): Promise<Finding> {
  const server = `${what} at ${new URL(url).host}`;
  try {
    await attempt();
    return ok(`${server} answers.`);
  } catch (error) {
    // A refused connection to a name with several addresses has no message.
    const { message, code } = error as NodeJS.ErrnoException;
    const reason = withoutSecrets(message || code || String(error), url).replace(/\s+/g, " ");
    return failed(`${server} cannot be used: ${reason}`);
  }
}
