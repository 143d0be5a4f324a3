import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { packageRoot } from "../../prisma/package-root.js";
import { listSettings, wrap } from "../cli/help.js";
import { buildDocument, printDocument } from "../openapi/document.js";
import { PACKAGE } from "../runtime/package.js";
import { markdownBlocks } from "./markdown-blocks.js";
import { sdkEvents, sdkFakeSchema, sdkSchema } from "./sdk-schema.js";

// `npm run generate`: writes what follows from the router, the schemas, the error table and the settings. CI fails if the
// result differs from what is committed.

const BLOCK = /(<!-- generated: (\w+) -->\n)[\s\S]*?(<!-- end -->)/g;

const EXAMPLE_HEAD = `\
# All settings, as environment variables: copy this to .env, for compose.yaml or as systemd's EnvironmentFile.
# Uncomment a line to set it; the value shown is the default. \`npm run generate\` writes this file.

# Only for compose.yaml: the password of its Postgres (letters and digits only).
#POSTGRES_PASSWORD=
`;

const MAX_WIDTH = 110;

const environmentExample = listSettings().map(({ name, description, allowed, defaultValue = "" }) => {
  const comment = wrap(description, MAX_WIDTH - "# ".length).replace(/^/gm, "# ");
  return `${comment}\n# (${allowed})\n#${name}=${defaultValue}\n`;
});

const pathOf = (name: string) => join(packageRoot(), name);

const printed = printDocument(buildDocument(PACKAGE.version));
const document = JSON.parse(printed);
writeFileSync(pathOf("gateway/openapi/openapi.json"), printed);
writeFileSync(pathOf("sdk/src/schema.ts"), sdkSchema(document));
writeFileSync(pathOf("sdk/src/events.ts"), sdkEvents(document));
writeFileSync(pathOf("sdk/src/fake-schema.ts"), sdkFakeSchema(document));
writeFileSync(pathOf(".env.example"), [EXAMPLE_HEAD, ...environmentExample].join("\n"));

const blocks = markdownBlocks(document);
const DOCUMENTS = [
  "README.md",
  "gateway/docs/contract.md",
  "gateway/docs/guides/0-concepts.md",
  "gateway/docs/guides/4-errors.md",
  "gateway/docs/guides/8-webhooks.md",
  "sdk/README.md",
];
for (const name of DOCUMENTS) {
  const path = pathOf(name);
  const text = readFileSync(path, "utf8").replace(BLOCK, (_, begin: string, block: string, end: string) => {
    const content = blocks[block];
    if (content === undefined) throw new Error(`${name}: there is no generated block ${block}`);
    return `${begin}\n${content}\n\n${end}`;
  });
  writeFileSync(path, text);
}
