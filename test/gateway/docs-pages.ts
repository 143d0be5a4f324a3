import { readdirSync } from "node:fs";

const OTHERS = [
  "sdk",
  "guest-page",
  "contract",
  "operating",
  "metrics",
  "alerts",
  "before-you-send",
  "outgrow",
  "internal-tools",
];

/** Paths of the pages that are made from Markdown. */
export const MARKDOWN_PAGES = [
  ...readdirSync("gateway/docs/guides").map((name) => name.replace(/^\d+-|\.md$/g, "")),
  ...OTHERS,
].map((name) => `/docs/${name}`);
export const DOCS_PAGES = ["/docs", ...MARKDOWN_PAGES, "/docs/reference"];
