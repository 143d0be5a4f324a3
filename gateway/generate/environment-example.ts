import { listSettings, type Setting } from "../cli/settings-help.js";
import { wrap } from "./wrap.js";

const HEAD = `\
# All settings, as environment variables: copy this to .env, for compose.yaml or as systemd's EnvironmentFile.
# Uncomment a line to set it; the value shown is the default. \`npm run generate\` writes this file.

# Only for compose.yaml: the password of its Postgres (letters and digits only).
#POSTGRES_PASSWORD=
`;

/** Returns `.env.example`. */
export const environmentExample = (): string => [HEAD, ...listSettings().map(entryOf)].join("\n");

const entryOf = ({ name, description, allowed, defaultValue = "" }: Setting) =>
  `${wrap(description, "#").join("\n")}\n# (${allowed})\n#${name}=${defaultValue}\n`;
