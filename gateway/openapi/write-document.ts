import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { packageRoot } from "../../prisma/package-root.js";
import { buildDocument, printDocument } from "./document.js";
import { VERSION } from "./version.js";

// `npm run document`: writes openapi.json. A test compares it with what the server serves.
writeFileSync(
  join(packageRoot(), "gateway", "openapi", "openapi.json"),
  printDocument(buildDocument(VERSION)),
);
