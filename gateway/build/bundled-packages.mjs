import { readFileSync } from "node:fs";
import { join } from "node:path";

const FOLDER = /^.*node_modules\/(?:@[^/]+\/)?[^/]+/;

/** The packages in a bundle, by esbuild's metafile: name, version, license and a folder below `root`. */
export function bundledPackages({ outputs }, root) {
  const paths = Object.values(outputs).flatMap(({ inputs }) => Object.keys(inputs));
  const folders = new Set(paths.flatMap((path) => FOLDER.exec(path)?.[0] ?? []));
  const packages = [...folders].sort().map((folder) => {
    const { name, version, license } = JSON.parse(readFileSync(join(root, folder, "package.json"), "utf8"));
    return [`${name} ${version}`, { name, version, license, folder }];
  });
  // npm may have installed the same version in several folders.
  return [...new Map(packages).values()];
}
