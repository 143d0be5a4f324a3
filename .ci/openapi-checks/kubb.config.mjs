import { pluginClient } from "@kubb/plugin-client";
import { pluginOas } from "@kubb/plugin-oas";
import { pluginTs } from "@kubb/plugin-ts";

export default {
  root: ".",
  input: { path: "dist/openapi.json" },
  output: { path: "dist/kubb", barrelType: "all", format: false, lint: false },
  plugins: [
    pluginOas({ generators: [], serverIndex: 0 }),
    pluginTs(),
    pluginClient({ client: "fetch", dataReturnType: "full" }),
  ],
};
