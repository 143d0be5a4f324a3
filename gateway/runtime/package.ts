import { createRequire } from "node:module";

/** package.json. Its version is that of the command, the OpenAPI document and the reference page too. */
export const PACKAGE: { version: string; description: string; peerDependencies: Record<string, string> } =
  createRequire(import.meta.url)("guest-forms/package.json");
