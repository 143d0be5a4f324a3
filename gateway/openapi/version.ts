import { createRequire } from "node:module";

/** Version of the package, the command, the OpenAPI document and the reference page. */
export const VERSION: string = createRequire(import.meta.url)("guest-forms/package.json").version;
