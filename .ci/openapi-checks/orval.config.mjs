export default {
  api: {
    input: "dist/openapi.json",
    output: { target: "dist/orval.ts", client: "fetch", baseUrl: { getBaseUrlFromSpecification: true } },
  },
};
