import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { packageRoot } from "../../prisma/package-root.js";

/** Has the packages of the tools, which `.ci/suite openapi` installs. */
export const TOOLS_FOLDER = join(packageRoot(), ".ci", "openapi-checks");

export const tool = (path: string) => join(TOOLS_FOLDER, "node_modules", path);

const QUIET = { DO_NOT_TRACK: "1", REDOCLY_TELEMETRY: "off", REDOCLY_SUPPRESS_UPDATE_NOTICE: "true" };

/** Runs a script of Node.js. */
export const runScript = (script: string, args: string[], cwd: string, env: Record<string, string> = {}) =>
  promisify(execFile)(process.execPath, [script, ...args], { cwd, env: { ...process.env, ...QUIET, ...env } });
