import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { SettingsError } from "../config.js";
import { canonicalLanguage } from "../languages.js";
import type { Part } from "./layout.js";

const SUFFIXES: Record<Part, string> = { subject: "subject.txt", text: "txt", html: "html" };

export const fileOf = (language: string, part: Part) => `invitation.${language}.${SUFFIXES[part]}`;

export const languageOf = (file: string) => file.split(".")[1] ?? "";

const NAMING = "Names are invitation.LANGUAGE.subject.txt, .txt and .html, with a LANGUAGE such as de or pt-BR.";

/** The templates in a folder by file name. Other files are ignored, except what looks like a misnamed template. */
export async function readFolder(folder: string): Promise<Map<string, string>> {
  const names = await readdir(folder).catch(({ message }: Error) => {
    throw new SettingsError(`EMAIL_TEMPLATES cannot be read: ${message}.`);
  });
  const files = names.filter((name) => /^invitation\..*[^~]$|^[^.].*\.(?:txt|html?)$/i.test(name));
  return new Map(await Promise.all(files.map(async (file) => [file, await readTemplate(folder, file)] as const)));
}

async function readTemplate(folder: string, file: string): Promise<string> {
  const path = join(folder, file);
  const canonical = canonicalLanguage(languageOf(file)) ?? "";
  const expected = (Object.keys(SUFFIXES) as Part[]).map((part) => fileOf(canonical, part));
  if (!expected.includes(file)) throw new SettingsError(`${path} is not the name of a template. ${NAMING}`);
  const bytes = await readFile(path).catch(({ message }: Error) => {
    throw new SettingsError(`${path} cannot be read: ${message}.`);
  });
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new SettingsError(`${path} is not in UTF-8.`);
  }
}
