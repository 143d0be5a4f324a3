import { createRequire } from "node:module";

/** The one version of package, command, OpenAPI document and reference page. */
export const VERSION: string = createRequire(import.meta.url)("guest-forms/package.json").version;
