import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { packageRoot } from "../../prisma/package-root.js";
import { buildDocument, printDocument } from "../openapi/document.js";
import { PACKAGE } from "../process/package.js";
import { environmentExample } from "./environment-example.js";
import { markdownBlocks } from "./markdown-blocks.js";
import { sdkSchema } from "./sdk-schema.js";

// `npm run generate`: writes what follows from the router, the schemas, the error table and the settings. CI fails if the
// result differs from what is committed.

const BLOCK = /(<!-- generated: (\w+) -->\n)[\s\S]*?(<!-- end -->)/g;

const pathOf = (name: string) => join(packageRoot(), name);

const document = buildDocument(PACKAGE.version);
writeFileSync(pathOf("gateway/openapi/openapi.json"), printDocument(document));
writeFileSync(pathOf("sdk/src/schema.ts"), sdkSchema(document));
writeFileSync(pathOf(".env.example"), environmentExample());

const blocks = markdownBlocks(document);
const DOCUMENTS = [
  "README.md",
  "gateway/docs/contract.md",
  "gateway/docs/guides/0-concepts.md",
  "gateway/docs/guides/4-errors.md",
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
