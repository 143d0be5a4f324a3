/** Where the page finds its files. */
interface PageFiles {
  viewer: string;
  start: string;
  style: string;
}

/**
 * Nothing from elsewhere, no inline script, no eval. Inline styles are allowed because the viewer sizes its parts by
 * style attributes, for which there are neither nonces nor hashes.
 */
export const PAGE_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

const ICON =
  "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'%3E%3Crect width='32' " +
  "height='32' rx='7' fill='%230f766e'/%3E%3Cpath d='M9 10h14M9 16h14M9 22h8' stroke='%23fff' stroke-width='2.6' " +
  "stroke-linecap='round'/%3E%3C/svg%3E";

/** The reference page: the viewer, which reads /openapi.json. */
export const page = (title: string, files: PageFiles): string => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>${title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="description" content="Reference and guides of the guest-registration forms interface.">
<link rel="icon" href="${ICON}">
<link rel="stylesheet" href="${files.style}">
</head>
<body>
<div id="reference"></div>
<noscript><p>This page needs JavaScript. The same reference as a document: <a href="/openapi.json">/openapi.json</a>.</p></noscript>
<script src="${files.viewer}"></script>
<script src="${files.start}"></script>
</body>
</html>
`;
