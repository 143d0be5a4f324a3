// The build bundles these exports without the adapters for other frameworks (gateway/dev/bundle.mjs).
export {
  createOpenApiNodeHttpHandler,
  forEachOpenApiProcedure,
  generateOpenApiDocument,
  getInputOutputParsers,
} from "trpc-to-openapi";
