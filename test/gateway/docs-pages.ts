import { readdirSync } from "node:fs";

/** Paths of the pages that show a guide or the contract. */
export const GUIDE_PAGES = [...readdirSync("gateway/docs/guides"), "contract.md"].map(
  (name) => `/docs/${name.replace(/^\d+-|\.md$/g, "")}`,
);
export const DOCS_PAGES = ["/docs", ...GUIDE_PAGES, "/docs/reference"];
