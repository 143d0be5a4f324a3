// Takes the viewer's one browser file out of its npm package: `node gateway/docs/viewer/update.mjs [VERSION]`.
// With --check it only compares: exit code 1 unless the file here is the package's, byte for byte.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync, gzipSync } from "node:zlib";

const folder = import.meta.dirname;
const recorded = JSON.parse(readFileSync(join(folder, "viewer.json"), "utf8"));
const check = process.argv.includes("--check");
const version = process.argv.slice(2).find((argument) => !argument.startsWith("-")) ?? recorded.version;

const scratch = mkdtempSync(join(tmpdir(), "guest-forms-viewer-"));
try {
  const pack = ["pack", `${recorded.package}@${version}`, "--json", "--pack-destination", scratch];
  const [{ filename, integrity }] = JSON.parse(execFileSync("npm", pack, { encoding: "utf8", cwd: scratch }));
  execFileSync("tar", ["xzf", filename, `package/${recorded.file}`], { cwd: scratch });
  const script = readFileSync(join(scratch, "package", recorded.file));
  const sha256 = createHash("sha256").update(script).digest("hex");
  if (check) {
    const here = gunzipSync(readFileSync(join(folder, "viewer.js.gz")));
    const same = here.equals(script) && sha256 === recorded.sha256 && integrity === recorded.integrity;
    console.log(
      same ? "The viewer is the package's own file." : "The viewer differs from the package's file.",
    );
    process.exitCode = same ? 0 : 1;
  } else {
    writeFileSync(join(folder, "viewer.js.gz"), gzipSync(script, { level: 9 }));
    const record = { ...recorded, version, integrity, sha256 };
    writeFileSync(join(folder, "viewer.json"), `${JSON.stringify(record, null, 2)}\n`);
  }
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
