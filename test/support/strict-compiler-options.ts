import { join } from "node:path";
import { packageRoot } from "../../prisma/package-root.js";

/** TypeScript's options for samples that import the SDK from its source, as strict as a user's project can be. */
export const STRICT_COMPILER_OPTIONS = {
  target: "es2022",
  module: "nodenext",
  strict: true,
  noUncheckedIndexedAccess: true,
  exactOptionalPropertyTypes: true,
  noEmit: true,
  types: ["node"],
  typeRoots: [join(packageRoot(), "node_modules/@types")],
  paths: { "@guest-forms/sdk": [join(packageRoot(), "sdk/src/index.ts")] },
};
