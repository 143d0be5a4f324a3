import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";

const SUITE = /\.(?:test|fault|operation|fleet|pgbouncer|abuse|browser|release|check)\.ts$/;

test("no helper has a hook at its top level, which would belong to only one of the files that share the helper", () => {
  const folder = join(packageRoot(), "test");
  const helpers = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter(
    (path) => path.endsWith(".ts") && !SUITE.test(path),
  );
  expect(helpers).toContain("support/gateway.ts");
  const withHook = helpers.filter((path) =>
    /^(?:before|after)(?:All|Each)\(/m.test(readFileSync(join(folder, path), "utf8")),
  );
  expect(withHook).toEqual(["support/run-after-file.ts"]);
});
