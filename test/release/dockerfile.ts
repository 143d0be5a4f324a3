import { readFileSync } from "node:fs";
import { join } from "node:path";
import { packageRoot } from "../../prisma/package-root.js";

interface Instruction {
  /** Such as `COPY`. */
  name: string;
  value: string;
}

const read = (name: string) => readFileSync(join(packageRoot(), name), "utf8");

/** The instructions of the Dockerfile, in order. */
export const readInstructions = (): Instruction[] =>
  read("Dockerfile")
    .replaceAll(/^#.*\n/gm, "")
    .replaceAll("\\\n", " ")
    .split("\n")
    .filter((line) => line.trim() !== "")
    .map((line) => {
      const [name = ""] = line.split(" ", 1);
      return { name, value: line.slice(name.length).trim() };
    });

/** Paths that `.dockerignore` leaves out of folders that it includes. */
export const readIgnoredPaths = (): string[] =>
  read(".dockerignore")
    .split("\n")
    .filter((line) => /^[^!#*]/.test(line));
