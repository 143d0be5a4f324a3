// Fails if dependencies have known vulnerabilities of severity `high` or `critical`. If the registry does not support
// audits, it prints a warning, and fails only with AUDIT=required.
import { spawnSync } from "node:child_process";
import { appendFileSync } from "node:fs";
import { join } from "node:path";

const { stdout } = spawnSync("npm", ["audit", "--audit-level=high", "--json"], { encoding: "utf8" });
const report = parseJson(stdout);

if (!report?.metadata) {
  const { AUDIT, CI_RESULTS, CI_STAGE } = process.env;
  const reason = report?.message ?? report?.error?.summary ?? "npm audit returned no report";
  const note = `DEPENDENCIES NOT AUDITED: ${reason}`;
  console.log(note);
  // `.ci/table.mjs` repeats it below the table.
  if (CI_RESULTS) appendFileSync(join(CI_RESULTS, "notes"), `${CI_STAGE} ${note.replaceAll("\n", " ")}\n`);
  process.exitCode = AUDIT === "required" ? 1 : 0;
} else {
  const { vulnerabilities, dependencies } = report.metadata;
  const serious = Object.values(report.vulnerabilities).filter(({ severity }) => /^(high|critical)$/.test(severity));
  for (const { name, severity, range } of serious) console.log(`${severity}: ${name} ${range}`);
  console.log(
    `Audited ${dependencies.total} dependencies: ${serious.length} of high or critical severity, ${vulnerabilities.total} in all.`,
  );
  process.exitCode = serious.length > 0 ? 1 : 0;
}

function parseJson(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
