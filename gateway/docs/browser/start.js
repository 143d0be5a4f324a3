/* global Scalar */
// Everything stays on this origin: no fonts, proxy, telemetry or assistant of the viewer's makers. Keys typed in are
// kept in memory only.
Scalar.createApiReference("#reference", {
  url: "/openapi.json",
  // As an address, for the viewer would send a request to "/" + "/v1/forms".
  servers: [{ url: location.origin, description: "This server." }],
  theme: "none",
  withDefaultFonts: false,
  telemetry: false,
  agent: { disabled: true },
  mcp: { disabled: true },
  showDeveloperTools: "never",
  hideClientButton: true,
  persistAuth: false,
  authentication: { preferredSecurityScheme: "bearer" },
  documentDownloadType: "direct",
  defaultOpenAllTags: true,
  modelsSectionLabel: "Schemas",
  orderSchemaPropertiesBy: "preserve",
  orderRequiredPropertiesFirst: false,
  hiddenClients: true,
  onLoaded: openGuides,
});

/** The guides are the introduction's headings, which the viewer folds away. */
function openGuides() {
  document.querySelector('[data-sidebar-id$="/introduction"] button[aria-expanded="false"]')?.click();
}
