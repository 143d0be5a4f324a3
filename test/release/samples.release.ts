import { execFile, spawnSync } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, expect, it } from "vitest";
import { signWebhook } from "../../sdk/src/webhooks.js";
import {
  documentSamples,
  guideSamples,
  readmeSample,
  recipeBookings,
  type Sample,
  SHOWN_FORM,
  SHOWN_LISTING,
  webhookGuideSamples,
} from "../contract/samples.js";
import { startHolderGateway } from "../gateway/holder-gateway.js";
import { makeForm } from "../support/factories.js";
import { makeTempFolder } from "../support/run-tool.js";
import { bundleWithSdk, compileWithSdk } from "../support/sdk-programs.js";

const run = promisify(execFile);

/** What each sample of the README and the guides prints. A sample without an entry fails. */
const EXPECTED_OUTPUT: Record<string, RegExp> = {
  "README.md sh 1": /"status":"SENT"/,
  "1-first-request.md sh 1": /"title":"Loft by the canal"/,
  "1-first-request.md ts 1": /^Loft by the canal$/,
  "1-first-request.md js 1": /^Loft by the canal$/,
  "1-first-request.md python 1": /^Loft by the canal$/,
  "1-first-request.md php 1": /^Loft by the canal$/,
  "1-first-request.md java 1": /"title":"Loft by the canal"/,
  "2-safe-retries.md sh 1": /^HTTP\/1.1 201 Created.*"status":"SENT"/s,
  "2-safe-retries.md ts 1": /^true true$/,
  "3-paging.md sh 1": /^\{"items":\[.*\],"nextCursor":null\}$/,
  "3-paging.md js 1": /^(\S{36} SENT\n?)+$/,
  "3-paging.md ts 1": /^(\S{36} SENT\n?)+$/,
  "3-paging.md ts 2": /^(\S{36} SENT \S{24}\n)+\S{24}$/,
  "4-errors.md js 1": /^400 VALIDATION_ERROR \S{36}\nlistingId: .*\ncheckInDate: is required/,
  "5-rate-limits.md js 1": /^200 "\d+-in-1min"; r=\d+; t=\d+$/,
  "6-versions.md js 1": /^$/,
  "7-recipes.md ts 1": /^4713 SENT$/,
  "7-recipes.md ts 2": /^(\S+ SENT\n?)+$/,
  "7-recipes.md ts 3": /^$/,
  "7-recipes.md js 1": /^[0-9a-f-]{36}$/,
};

/** Samples that print every form, oldest first. */
const LIST_FORMS = ["3-paging.md js 1", "3-paging.md ts 1", "listForms ts"];

const readme = readmeSample();
/** The program that runs each language. Debian has none for C#: test/contract/document.test.ts reads those samples. */
const PROGRAMS = {
  bash: "curl",
  sh: "curl",
  python: "python3",
  php: "php",
  java: "java",
  js: "node",
  ts: "node",
} as const;
type Program = Sample & { language: keyof typeof PROGRAMS };
const isProgram = (sample: Sample): sample is Program => sample.language in PROGRAMS;

const documented = [readme, ...guideSamples()].filter(isProgram);
const samples = [...documented, ...documentSamples().filter(isProgram)];

/** With curl a response that is not an error; from a program, whose client throws for errors, anything. */
const isOutputOfOperation = (output: string, { language }: Sample) =>
  language === "bash" ? !("code" in JSON.parse(output)) : output !== "";

const isInstalled = (program: string) => program === "node" || spawnSync(program, ["--version"]).status === 0;
const installedPrograms = new Set<string>(Object.values(PROGRAMS).filter(isInstalled));
const skipNote = (program: string) =>
  installedPrograms.has(program) ? "" : `: SKIPPED because ${program} is not installed`;

const folder = await makeTempFolder("samples");
let env: NodeJS.ProcessEnv;
let ids: Record<string, string>;
let readFormIds: () => Promise<string[]>;
beforeAll(async () => {
  const { gateway, services, holder, listingId } = await startHolderGateway({}, { title: "Loft by the canal" });
  const form = await makeForm(services, holder.userId, listingId);
  await makeForm(services, holder.userId, listingId);
  readFormIds = async () => {
    const forms = await services.db.prisma.form.findMany({ orderBy: [{ createdAt: "asc" }, { id: "asc" }] });
    return forms.map(({ id }) => id);
  };
  ids = { [SHOWN_LISTING]: listingId, [SHOWN_FORM]: form.id };
  // What `import --output` writes: test/commands/import.test.ts.
  const row = { type: "listing", externalId: "loft-1", id: listingId };
  await writeFile(join(folder, "ids.ndjson"), `${JSON.stringify(row)}\n`);
  await writeFile(join(folder, "bookings.json"), recipeBookings().replaceAll(SHOWN_LISTING, listingId));
  env = {
    PATH: process.env.PATH,
    GUEST_FORMS_BASE_URL: gateway.url,
    GUEST_FORMS_API_KEY: holder.key,
    LISTING_ID: listingId,
  };
});

const fileOf = ({ name }: Sample, extension: string) => join(folder, `${name.replaceAll(/\W+/g, "-")}.${extension}`);

/** Runs a sample with these variables besides `env`, and returns its output. */
async function runSample(sample: Program, variables: Record<string, string> = {}): Promise<string> {
  let { source } = sample;
  for (const [shown, real] of Object.entries(ids)) source = source.replaceAll(shown, real);
  const [program, ...args] = await prepareCommand({ ...sample, source });
  const { stdout, stderr } = await run(program, args, { env: { ...env, ...variables }, cwd: folder, timeout: 30_000 });
  expect(stderr).toBe("");
  return stdout.trim();
}

/** Samples that end with an error if the response is one. The other guides show how to handle errors. */
const checksStatus = ({ name }: Sample) => !/^(README|[2-7]-)/.test(name);

async function prepareCommand(sample: Program): Promise<[string, ...string[]]> {
  const { language } = sample;
  const extension = { bash: "sh", sh: "sh", python: "py", php: "php", java: "java", js: "mjs", ts: "ts" }[language];
  const file = fileOf(sample, extension);
  await writeFile(file, sample.source);
  if (language === "bash" || language === "sh") return ["sh", "-eu", file];
  if (language === "python") return ["python3", file];
  if (language === "php") return ["php", "-d", "display_errors=stderr", file];
  if (language === "java") return ["java", file];
  if (language === "js") return [process.execPath, file];
  return [process.execPath, await bundleWithSdk(file)];
}

it("every sample of the README and the guides has an expected output", () => {
  expect(documented.map(({ name }) => name).sort()).toEqual(Object.keys(EXPECTED_OUTPUT).sort());
});

for (const sample of samples) {
  const program = PROGRAMS[sample.language];
  it.skipIf(!installedPrograms.has(program))(
    `the sample ${sample.name} prints the expected output${skipNote(program)}`,
    { timeout: 120_000 },
    async () => {
      const output = await runSample(sample);
      const expected = EXPECTED_OUTPUT[sample.name];
      expect(output).toSatisfy(() => expected?.test(output) ?? isOutputOfOperation(output, sample));
      if (LIST_FORMS.includes(sample.name)) {
        expect(output.split("\n").map((line) => line.slice(0, 36))).toEqual(await readFormIds());
      }
      if (checksStatus(sample)) {
        const rejected = runSample(sample, { GUEST_FORMS_API_KEY: `grf_rw_${"x".repeat(49)}` });
        await expect(rejected).rejects.toThrow(/Command failed/);
        expect(await rejected.catch(({ stdout, stderr }) => stdout + stderr)).toContain("UNAUTHENTICATED");
      }
    },
  );
}

it("the TypeScript samples compile in strict mode", { timeout: 180_000 }, async () => {
  const typescript = samples.filter(({ language }) => language === "ts");
  for (const sample of typescript) await writeFile(fileOf(sample, "ts"), sample.source);
  const files = typescript.map((sample) => fileOf(sample, "ts"));
  expect(await compileWithSdk(folder, files)).toBe("");
});

it.skipIf(!installedPrograms.has("python3"))(
  `verify in Python accepts what is signed, and nothing else${skipNote("python3")}`,
  async () => {
    const sample = webhookGuideSamples().find(({ name }) => name === "Verify without the SDK python 1");
    const program = `${sample?.source}
import json, sys
for case in json.load(sys.stdin):
  try:
      verify(case["body"].encode(), case["headers"], case["secret"])
      print("accepted")
  except ValueError as error:
      print(error)
`;
    await writeFile(join(folder, "verify.py"), program);
    const [secret, other] = ["whsec_c2VjcmV0IG9mIHRoZSBndWlkZQ==", "whsec_b3RoZXI="];
    const body = '{"type":"webhook.test","note":"Čajovna"}';
    const { headers } = await signWebhook(body, secret);
    const rotated = await signWebhook(body, [other, secret]);
    const old = await signWebhook(body, secret, { timestamp: new Date(Date.now() - 302_000) });
    const future = await signWebhook(body, secret, { timestamp: new Date(Date.now() + 330_000) });
    const cases = [
      { body, headers, secret },
      { ...rotated, secret },
      { body: `${body} `, headers, secret },
      { body, headers, secret: other },
      { body, headers: {}, secret },
      { ...old, secret },
      { ...future, secret },
    ];
    const running = promisify(execFile)("python3", [join(folder, "verify.py")]);
    running.child.stdin?.end(JSON.stringify(cases));
    const [wrong, late] = ["no signature matches", "sent too long ago, or in the future"];
    expect((await running).stdout.trim().split("\n")).toEqual([
      "accepted",
      "accepted",
      wrong,
      wrong,
      wrong,
      late,
      late,
    ]);
  },
);
