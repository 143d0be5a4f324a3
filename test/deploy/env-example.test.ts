import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { listSettings, type Setting } from "../../gateway/commands/settings-help.js";
import { packageRoot } from "../../prisma/package-root.js";
import { settingsSchema } from "../../server/config.js";

const HEAD = `\
# All settings, as environment variables: copy this to .env, for compose.yaml or as systemd's EnvironmentFile.
# Uncomment a line to set it; the value shown is the default. Written from server/config.ts by
# \`npx vitest run test/deploy --update\`.

# Only for compose.yaml: the password of its Postgres (letters and digits only).
#POSTGRES_PASSWORD=
`;

const entry = ({ name, description, allowed, defaultValue = "" }: Setting) =>
  `${wrapped(description)}\n# (${allowed})\n#${name}=${defaultValue}\n`;

function wrapped(text: string): string {
  const lines = ["#"];
  for (const word of text.split(" ")) {
    if (`${lines.at(-1)} ${word}`.length > 110) lines.push("#");
    lines[lines.length - 1] += ` ${word}`;
  }
  return lines.join("\n");
}

test(".env.example has every setting with its meaning and default, and no other", async () => {
  const text = [HEAD, ...listSettings().map(entry)].join("\n");
  const file = join(packageRoot(), ".env.example");
  await expect(text).toMatchFileSnapshot(file);
  const names = [...(await readFile(file, "utf8")).matchAll(/^#?([A-Z][A-Z_]*)=/gm)].map(([, name]) => name);
  expect(names).toEqual(["POSTGRES_PASSWORD", ...Object.keys(settingsSchema.shape)]);
});
