import { execFile, spawn, spawnSync } from "node:child_process";
import { promisify } from "node:util";
import { packageRoot } from "../../prisma/package-root.js";
import { afterFile } from "../support/after-file.js";
import { RunningProcess } from "../support/processes.js";
import { makeTempFolder } from "../support/run-tool.js";
import { buildImage, canRunImages, spawnInImage } from "./built-image.js";

interface RunOptions {
  env?: Record<string, string>;
  /** Whether the temporary folder is writable. Default: true. */
  hasTmp?: boolean;
}

/** Runs Node with these arguments in the image, as compose.yaml does: as its user, without capabilities, on a read-only file system. */
export type RunNode = (args: string[], options?: RunOptions) => RunningProcess;

export interface Engine {
  name: string;
  /** Builds the image of the Dockerfile. */
  build(): Promise<RunNode>;
}

const WITHOUT_ENGINE: Engine = {
  name: "built by the steps of the Dockerfile without a container engine",
  async build() {
    const image = await buildImage(await makeTempFolder("image"));
    return (args, { env, hasTmp } = {}) => spawnInImage(image, args, env, { hasTmp });
  },
};

const TAG = "guest-forms-test";
const LOCKED_DOWN = "--network=host --read-only --cap-drop=ALL --security-opt=no-new-privileges".split(" ");

const engineOf = (program: string): Engine => ({
  name: `built by ${program}`,
  async build() {
    await promisify(execFile)(program, ["build", "--tag", TAG, packageRoot()], { maxBuffer: 64 << 20 });
    return (args, { env = {}, hasTmp = true } = {}) => {
      const variables = Object.entries(env).map(([name, value]) => `--env=${name}=${value}`);
      const options = [...LOCKED_DOWN, ...(hasTmp ? ["--tmpfs=/tmp"] : []), ...variables];
      const running = new RunningProcess(
        spawn(program, ["run", "--rm", ...options, "--entrypoint=node", TAG, ...args]),
      );
      afterFile(() => running.stopOrKill());
      return running;
    };
  },
});

const isUsable = (program: string) => spawnSync(program, ["info"]).status === 0;

/** The container engine of this machine, and the way without one, if they can be used. */
export const engines: Engine[] = [
  ...["docker", "podman"].filter(isUsable).slice(0, 1).map(engineOf),
  ...(canRunImages ? [WITHOUT_ENGINE] : []),
];
