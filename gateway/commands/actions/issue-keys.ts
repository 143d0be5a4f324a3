import { type FileHandle, rm } from "node:fs/promises";
import type { Caller } from "../../../server/caller.js";
import { issueInput } from "../../../server/keys/schema.js";
import type { LineError } from "../../../server/onboarding/schema.js";
import { CommandFailure } from "../../cli/failure.js";
import { issueOfReference } from "../../cli/services.js";
import { formatCsv, toRecord } from "../../rows/csv.js";
import type { Format } from "../../rows/format.js";
import { readRows } from "../../rows/read-file.js";
import { writeNew } from "../../rows/write-file.js";
import { printLine } from "../../runtime/terminal.js";

type KeyFields = Omit<Parameters<Caller["keys"]["issue"]>[0], "userId">;
type User = Awaited<ReturnType<Caller["users"]["find"]>>;

const COLUMNS = ["externalId", "email", "keyId", "key"];

/**
 * Issues a key to each user of a file who has no valid one with this mode and label, and writes the keys to a new CSV file.
 * Run again after an interruption, it issues the others.
 */
export async function issueKeys(
  core: Caller,
  path: string,
  { format, output, ...fields }: KeyFields & { format: Format; output: string },
): Promise<{ issued: number; skipped: number }> {
  const users = await readUsers(core, path, format);
  const lacking: User[] = [];
  for (const user of users) if (!(await hasKey(core, user.id, fields))) lacking.push(user);
  let issued = 0;
  const write = async (file: FileHandle) => {
    await file.appendFile(toRecord(COLUMNS));
    for (const { id: userId, externalId, email } of lacking) {
      const { id: keyId, key } = await core.keys.issue({ ...fields, userId });
      issued++;
      await file
        .appendFile(formatCsv([{ externalId, email, keyId, key }], { columns: COLUMNS }))
        .catch(async (error) => {
          // Nobody will ever have it.
          await core.keys.revoke({ id: keyId }).catch(() => printLine(process.stderr, `Revoke the key ${keyId}.`));
          throw error;
        });
    }
  };
  await writeNew(output, (file) =>
    write(file).catch(async (error) => {
      // Without a key in it, it would only be in the way of the next run.
      if (issued === 0) await rm(output);
      throw error;
    }),
  );
  return { issued: lacking.length, skipped: users.length - lacking.length };
}

/** Finds the users that the rows of type `user` name by external id. */
async function readUsers(core: Caller, path: string, format: Format): Promise<User[]> {
  const { lines, errors } = await readRows(path, format);
  const users = new Map<string, User>();
  for (const { line, value } of lines) {
    const { type, externalId } = value as Record<string, unknown>;
    if (type !== "user") continue;
    const user = String(externalId).trim();
    const found = await core.users.find({ user }).catch((error) => issueOfReference(error, UNKNOWN));
    if (typeof found !== "string" && [found.externalId, found.id, found.id.toUpperCase()].includes(user))
      users.set(found.id, found);
    else errors.push({ line, field: "externalId", issue: typeof found === "string" ? found : UNKNOWN });
  }
  if (users.size === 0 && errors.length === 0) errors.push(NO_USERS);
  if (errors.length > 0) throw CommandFailure.ofLines(errors, "No keys were issued.");
  return [...users.values()];
}

const UNKNOWN = "no user has this external id or id: import the file first";

const NO_USERS: LineError = { line: 1, field: "type", issue: "the file has no row of type user" };

async function hasKey(core: Caller, userId: string, { mode, label: given }: KeyFields): Promise<boolean> {
  // As it is stored.
  const { data: label = null } = issueInput.shape.label.safeParse(given);
  for (let cursor: string | undefined; ; ) {
    const { items, nextCursor } = await core.keys.list({ userId, cursor });
    const valid = items.filter(
      ({ revokedAt, expiresAt }) => !revokedAt && (!expiresAt || new Date(expiresAt).getTime() > Date.now()),
    );
    if (valid.some((key) => key.mode === mode && key.label === label)) return true;
    if (nextCursor === null) return false;
    cursor = nextCursor;
  }
}
