// Fails on known vulnerabilities of dependencies, from `high` upwards. Where the registry serves no audits nothing is
// known: that is said, and fails where AUDIT=required.
import { spawnSync } from "node:child_process";

const { stdout } = spawnSync("npm", ["audit", "--audit-level=high", "--json"], { encoding: "utf8" });
const report = parsed(stdout);

if (!report?.metadata) {
  const required = process.env.AUDIT === "required";
  console.log(
    `DEPENDENCIES NOT AUDITED: ${report?.message ?? report?.error?.summary ?? "npm audit gave no report"}`,
  );
  process.exitCode = required ? 1 : 0;
} else {
  const { vulnerabilities, dependencies } = report.metadata;
  const serious = Object.values(report.vulnerabilities).filter(({ severity }) =>
    /^(high|critical)$/.test(severity),
  );
  for (const { name, severity, range } of serious) console.log(`${severity}: ${name} ${range}`);
  console.log(
    `Audited ${dependencies.total} dependencies: ${serious.length} of high or critical severity, ${vulnerabilities.total} in all.`,
  );
  process.exitCode = serious.length > 0 ? 1 : 0;
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
