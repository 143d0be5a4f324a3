import { readFileSync } from "node:fs";
import { join } from "node:path";

const FOLDER = /^.*node_modules\/(?:@[^/]+\/)?[^/]+/;

/** The packages in a bundle, by esbuild's metafile: name, version, license and folder below `root`. */
export function bundledPackages({ outputs }, root) {
  const paths = Object.values(outputs).flatMap(({ inputs }) => Object.keys(inputs));
  const folders = new Set(paths.flatMap((path) => FOLDER.exec(path)?.[0] ?? []));
  return [...folders].sort().map((folder) => {
    const { name, version, license } = JSON.parse(readFileSync(join(root, folder, "package.json"), "utf8"));
    return { name, version, license, folder };
  });
}
