// The build bundles what this file exports (gateway/dev/bundle.mjs), without the adapters for other frameworks.
export {
  createOpenApiNodeHttpHandler,
  forEachOpenApiProcedure,
  generateOpenApiDocument,
  getInputOutputParsers,
} from "trpc-to-openapi";
