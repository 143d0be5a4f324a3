import { type FileHandle, open, rename, rm, stat } from "node:fs/promises";
import { CommandFailure } from "../cli/failure.js";

/**
 * Writes a file that only its owner can read. It is renamed when `work` is done, so that an interrupted one is not taken for
 * a complete one.
 */
export async function writeWhole<Result>(path: string, work: (file: FileHandle) => Promise<Result>): Promise<Result> {
  const partial = `${path}.partial`;
  try {
    // An earlier one may be readable by others, or a link.
    await rm(partial, { force: true });
    const result = await withFile(await open(partial, "wx", 0o600), work);
    await rename(partial, path);
    return result;
  } catch (error) {
    throw cannotWrite(path, error);
  }
}

/** Writes to a new file, by default one that only its owner can read. Fails if there is one with this name. */
export const writeNew = async <Result>(
  path: string,
  work: (file: FileHandle) => Promise<Result>,
  mode = 0o600,
): Promise<Result> =>
  withFile(
    await open(path, "wx", mode).catch((error) => {
      throw cannotWrite(path, error);
    }),
    work,
  );

/** Whether both paths lead to one file, also over links. */
export async function isSameFile(path: string, other: string): Promise<boolean> {
  const [one, two] = await Promise.all([path, other].map((each) => stat(each).catch(() => undefined)));
  return one !== undefined && one.ino === two?.ino && one.dev === two.dev;
}

const withFile = <Result>(file: FileHandle, work: (file: FileHandle) => Promise<Result>) =>
  work(file).finally(() => file.close());

const REASONS: Record<string, string> = {
  ENOENT: "there is no such folder",
  EISDIR: "it is a folder",
  EEXIST: "it exists already",
};

/** The error as one of the command; another error, such as one of the database, as it is. */
function cannotWrite(path: string, error: unknown): unknown {
  const { code = "", path: named } = error as NodeJS.ErrnoException;
  if (!named?.startsWith(path)) return error;
  return new CommandFailure(`Cannot write ${path}: ${REASONS[code] ?? code}. Choose another --output.`);
}
