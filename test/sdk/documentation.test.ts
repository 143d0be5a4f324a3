import { writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { beforeAll, expect, test } from "vitest";
import type Ts from "../../node_modules/@arethetypeswrong/core/node_modules/typescript/lib/typescript.js";
import { makeTempFolder, runTool } from "../support/run-tool.js";

// The documentation that editors show, read from the published declarations.
const root = fileURLToPath(new URL("../..", import.meta.url));
const TSC = join(root, "node_modules/typescript/bin/tsc");
// The repository's TypeScript version has no stable compiler API yet.
const ts: typeof Ts = createRequire(join(root, "node_modules/@arethetypeswrong/core/package.json"))(
  "typescript",
);

let folder: string;
let declared: Declared[];

interface Declared {
  name: string;
  isMethod: boolean;
  description: string;
  example: string | undefined;
}

beforeAll(async () => {
  folder = await makeTempFolder("documentation");
  await runTool(process.execPath, [TSC, "-p", join(root, "sdk"), "--outDir", join(folder, "sdk")], 120);
  declared = readDeclarations(join(folder, "sdk", "index.d.ts"));
});

/** Standard members of promises and iterables. */
const STANDARD_MEMBERS = new Set([
  "then",
  "catch",
  "finally",
  "[Symbol.toStringTag]",
  "[Symbol.asyncIterator]",
]);

/** Returns all exports with their properties and methods. */
function readDeclarations(entry: string): Declared[] {
  const program = ts.createProgram([entry], { target: ts.ScriptTarget.ES2022, types: [] });
  const checker = program.getTypeChecker();
  const describe = (name: string, symbol: Ts.Symbol, isMethod: boolean): Declared => {
    const example = symbol.getJsDocTags(checker).find((tag) => tag.name === "example");
    return {
      name,
      isMethod,
      description: ts.displayPartsToString(symbol.getDocumentationComment(checker)),
      example: example && ts.displayPartsToString(example.text),
    };
  };
  const membersOf = (name: string, node: Ts.Node): Declared[] => {
    const found: Declared[] = [];
    const visit = (child: Ts.Node): void => {
      if (ts.isConstructorDeclaration(child)) return;
      if (ts.isConditionalTypeNode(child)) {
        visit(child.trueType);
        return;
      }
      const isMethod = ts.isMethodSignature(child) || ts.isMethodDeclaration(child);
      if (isMethod || ts.isPropertySignature(child) || ts.isPropertyDeclaration(child)) {
        const member = child.name.getText();
        const symbol = checker.getSymbolAtLocation(child.name);
        if (ts.isPrivateIdentifier(child.name) || STANDARD_MEMBERS.has(member) || !symbol) return;
        found.push(describe(`${name}.${member}`, symbol, isMethod));
        if (isMethod) return;
      }
      ts.forEachChild(child, visit);
    };
    ts.forEachChild(node, visit);
    return found;
  };
  const source = program.getSourceFile(entry);
  const module = source && checker.getSymbolAtLocation(source);
  return checker.getExportsOfModule(module as Ts.Symbol).flatMap((exported) => {
    const symbol = exported.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(exported) : exported;
    const { name } = exported;
    const isFunction = checker.getTypeOfSymbol(symbol).getCallSignatures().length > 0;
    const members = (symbol.declarations ?? []).flatMap((node) => membersOf(name, node));
    return [describe(name, symbol, isFunction), ...members];
  });
}

test("every export, property and method has a description", () => {
  expect(declared.length).toBeGreaterThan(100);
  expect(declared.filter(({ description }) => description.length < 5).map(({ name }) => name)).toEqual([]);
});

test("every method has an example", () => {
  const methods = declared.filter(({ isMethod }) => isMethod);
  expect(methods.map(({ name }) => name)).toEqual(
    expect.arrayContaining(["GuestForms.withOptions", "Forms.create", "Page.nextPage", "isKnownStatus"]),
  );
  expect(methods.filter(({ example }) => !example?.includes("```ts\n")).map(({ name }) => name)).toEqual([]);
});

test("no description cites a document outside the repository", () => {
  expect(declared.filter(({ description }) => description.includes("interface,"))).toEqual([]);
});

test("every example compiles in strict mode", { timeout: 120_000 }, async () => {
  const examples = declared.flatMap(({ example }) => example ?? []);
  const bodies = examples.map((example) => /```ts\n(.*?)```/s.exec(example)?.[1]);
  await writeFile(
    join(folder, "use.ts"),
    `import { GuestForms, isKnownStatus, type AbortSignalLike, type FetchResponse, type FormInput, type FormV1 } from "./sdk/index.js";
    declare const client: GuestForms, input: FormInput, form: FormV1, id: string, listingId: string;
    declare const booking: { id: number }, host: { apiKey: string }, response: FetchResponse;
    declare const signal: AbortSignalLike, listener: () => void;
    ${bodies.map((body, n) => `async function example${n}() { ${body} }`).join("\n")}`,
  );
  await writeFile(join(folder, "package.json"), '{ "type": "module" }');
  const compilerOptions = {
    target: "es2022",
    lib: ["es2022", "dom"],
    module: "nodenext",
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    noEmit: true,
    types: [],
  };
  await writeFile(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["use.ts"] }));
  expect(await runTool(process.execPath, [TSC, "-p", folder], 120)).toBe("");
});
