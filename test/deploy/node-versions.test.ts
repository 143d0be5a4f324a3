import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import { spawnNode } from "../support/processes.js";

/** Runs the check as if Node.js had this version. */
const check = (version: string) => {
  const versions = JSON.stringify({ node: version });
  const pretend = `Object.defineProperty(process, "versions", { value: ${versions} });`;
  return spawnNode(["-e", `${pretend} require("./gateway/check-node.cjs")`], { cwd: packageRoot() }).done;
};

test("exactly the Node.js versions that package.json does not allow are rejected, with one sentence", async () => {
  const { engines } = JSON.parse(readFileSync(join(packageRoot(), "package.json"), "utf8"));
  expect(engines.node).toBe("^20.19 || ^22.12 || >=24");
  for (const version of ["8.17.0", "18.20.8", "20.18.3", "21.7.3", "22.11.0", "23.11.1"]) {
    const { code, stderr } = await check(version);
    expect(code, version).toBe(1);
    expect(stderr, version).toMatch(
      /^guest-forms needs Node\.js 24 or later, 22 from 22\.12, or 20 from 20\.19, but this is .+\.\n$/,
    );
  }
  for (const version of ["20.19.0", "20.20.2", "22.12.0", "24.0.0", "24.21.0", "26.10.0"]) {
    expect(await check(version), version).toMatchObject({ code: 0, stdout: "", stderr: "" });
  }
});
