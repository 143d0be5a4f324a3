declare global {
  /** Not in a module: `vi.resetModules` would make a second one, which `run-after-file.ts` would not see. */
  var cleanUpsOfTestFile: (() => unknown)[] | undefined;
}

/**
 * Runs this after the test file, after its own hooks; what was registered last runs first. Not `afterAll`: helpers are
 * imported once per process, so a hook at their top level would belong to only one of its files.
 */
export function afterFile(cleanUp: () => unknown): void {
  globalThis.cleanUpsOfTestFile ??= [];
  globalThis.cleanUpsOfTestFile.push(cleanUp);
}
