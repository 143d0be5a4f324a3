import { execFile, spawn } from "node:child_process";
import { chmod, mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { test } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import { sendRequest } from "../support/http-client.js";
import { RunningProcess } from "../support/processes.js";
import { makeTempFolder } from "../support/run-tool.js";
import { makeCleanClone } from "./sdk.js";

const run = promisify(execFile);
const MINUTE_MS = 60_000;
const INSTALL_TIMEOUT_MS = 8 * MINUTE_MS;

interface User {
  name: string;
  uid?: number;
  gid?: number;
}

/** Root and a user without rights. Only the current user if that is not root, because it cannot become another one. */
async function readUsers(): Promise<User[]> {
  if (process.getuid?.() !== 0) {
    console.warn("Not root: npm start is tested only as the current user.");
    return [{ name: "the current user" }];
  }
  const idOf = async (flag: string) => Number((await run("id", [flag, "nobody"])).stdout);
  return [{ name: "root" }, { name: "nobody", uid: await idOf("-u"), gid: await idOf("-g") }];
}

test.concurrent.for(await readUsers())(
  "the README's `npm ci && npm start` in a clean clone, as $name, serves the demo",
  { timeout: INSTALL_TIMEOUT_MS + 2 * MINUTE_MS },
  async ({ name, uid, gid }, { expect, onTestFinished }) => {
    const readme = await readFile(join(packageRoot(), "README.md"), "utf8");
    const [, line = ""] = /```sh\n(.*)\n```/.exec(readme) ?? [];
    expect(line).toBe("npm ci && npm start");

    const folder = await makeTempFolder("start");
    await chmod(folder, 0o755);
    const clone = join(folder, "guest-forms");
    await makeCleanClone(clone);
    const { PATH, HOME, NODE_EXTRA_CA_CERTS, HTTPS_PROXY, npm_config_registry } = process.env;
    const home = uid === undefined ? HOME : join(folder, "home");
    if (home && uid !== undefined) {
      await mkdir(home);
      await run("chown", ["-R", `${uid}:${gid}`, home, clone]);
    }
    const shell = spawn("sh", ["-c", line], {
      cwd: clone,
      env: { PATH, HOME: home, PORT: "0", NODE_EXTRA_CA_CERTS, HTTPS_PROXY, npm_config_registry },
      stdio: ["ignore", "pipe", "pipe"],
      // A process group of its own, so that nothing is left if the test fails.
      detached: true,
      ...(uid === undefined || gid === undefined ? {} : { uid, gid }),
    });
    const pid = Number(shell.pid);
    onTestFinished(() => {
      try {
        process.kill(-pid, "SIGKILL");
      } catch {
        // All have exited.
      }
    });

    const npm = new RunningProcess(shell);
    await npm.waitForLine(/^Stop it with Ctrl-C/, INSTALL_TIMEOUT_MS);
    const [, url = ""] = /^ +URL +(\S+)/m.exec(npm.stdout) ?? [];
    const [, key = ""] = /^ +Read-only key +(\S+)/m.exec(npm.stdout) ?? [];
    const { status, json } = await sendRequest(`${url}/v1/forms`, key);
    expect(status, name).toBe(200);
    expect(json).toHaveProperty("items.0.id");
    process.kill(-pid, "SIGTERM");
    await npm.done;
  },
);
