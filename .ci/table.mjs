// Prints the table of `.ci/stages`: what each stage ran. Exits with 1 if a stage failed, did not run, or ran its tests on
// other versions than those it names.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const folder = process.env.CI_RESULTS;
const read = (name) => readFileSync(join(folder, name), "utf8");
const lines = (name) => (existsSync(join(folder, name)) ? read(name).trim().split("\n") : []);
const majors = (versions) => [...new Set(versions.map((version) => String(parseInt(version, 10))))].sort().join(" ");

const runs = readdirSync(folder)
  .filter((name) => name.endsWith(".json"))
  .map((name) => JSON.parse(read(name)));
const finished = new Map(
  lines("finished").map((line) => {
    const [stage, code, seconds] = line.split(" ");
    return [stage, { code: Number(code), seconds }];
  }),
);

// What a stage that passed could not do.
const notes = lines("notes").map((line) => {
  const [, stage, text] = /^(\d+) (.*)$/.exec(line);
  return { stage: Number(stage), text };
});

const problems = [];
const rows = lines("stages").map((line, index) => {
  const [name, nodes, servers] = line.split("|").map((cell) => cell.trim());
  const end = finished.get(String(index));
  const ofStage = runs.filter(({ stage }) => stage === String(index));
  const sum = (state) => ofStage.reduce((total, run) => total + run[state], 0);
  const versions = (key) => [...new Set(ofStage.map((run) => run[key]))].sort();

  const claimed = `Node ${nodes}, PostgreSQL ${servers}`;
  const used = `Node ${majors(versions("node"))}, PostgreSQL ${majors(versions("postgres"))}`;
  if (!end) problems.push(`${name}: not run`);
  else if (end.code !== 0) problems.push(`${name}: failed`);
  else if (used !== claimed) problems.push(`${name}: its tests ran on ${used} instead of ${claimed}`);
  const success = notes.some(({ stage }) => stage === index) ? "NOT DONE" : "passed";
  return [
    name,
    end ? (end.code === 0 ? success : "FAILED") : "NOT RUN",
    ofStage.length > 0 ? `${sum("passed")}/${sum("failed")}/${sum("skipped")}` : "-",
    end?.seconds ?? "-",
    [
      ...versions("node").map((version) => `Node ${version}`),
      ...versions("postgres").map((version) => `PostgreSQL ${version}`),
    ].join(", "),
  ];
});

const table = [["stage", "result", "passed/failed/skipped", "seconds", "versions"], ...rows];
const widths = table[0].map((_, column) => Math.max(...table.map((row) => row[column].length)));
console.log();
for (const row of table)
  console.log(
    row
      .map((cell, column) => cell.padEnd(widths[column]))
      .join("  ")
      .trimEnd(),
  );

console.log(`\n${Math.round(Number(process.env.SECONDS_IN_ALL) / 60)} minutes in all`);
for (const line of [...notes.map(({ text }) => text), ...problems]) console.log(line);
// Again, because a log of all stages is long.
for (const { stage, failures } of runs)
  for (const failure of failures) console.log(`FAILED in ${rows[stage][0]}: ${failure}`);
console.log(problems.length > 0 ? "CI FAILED" : "CI passed");
process.exitCode = problems.length > 0 ? 1 : 0;
