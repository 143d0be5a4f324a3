import { join } from "node:path";
import { expect, it } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import { startHolderGateway } from "../gateway/holder-gateway.js";
import { freePort } from "../support/network.js";
import { spawnNode } from "../support/processes.js";
import { uniqueStay } from "../support/stays.js";
import { runScript, tool } from "./tools.js";

const root = packageRoot();
const DOCUMENT = "gateway/openapi/openapi.json";
const TIMEOUT = { timeout: 120_000 };

const run = (script: string, args: string[]) => runScript(tool(script), args, root);

const { gateway, holder, listingId } = await startHolderGateway();

it("Redocly reports no problems", TIMEOUT, async () => {
  const args = ["lint", "--config", "test/openapi-checks/redocly.yaml", "--format", "json", DOCUMENT];
  const { stdout } = await run("@redocly/cli/bin/cli.js", args);
  expect(JSON.parse(stdout)).toMatchObject({ totals: { errors: 0, warnings: 0, ignored: 0 }, problems: [] });
});

it("Spectral with OWASP rules reports no problems", TIMEOUT, async () => {
  const args = ["lint", "-r", "test/openapi-checks/spectral.yaml", "--fail-severity", "hint", "--format", "json"];
  const { stdout } = await run("@stoplight/spectral-cli/dist/index.js", [...args, "--quiet", DOCUMENT]);
  expect(JSON.parse(stdout)).toEqual([]);
});

it("Prism as a validating proxy reports no violations", TIMEOUT, async () => {
  const port = await freePort();
  const prism = spawnNode([
    tool("@stoplight/prism-cli/dist/index.js"),
    ...["proxy", join(root, DOCUMENT), gateway.url, "--port", String(port)],
  ]);
  await prism.waitForLine(/Prism is listening/, 60_000);
  const url = `http://127.0.0.1:${port}/v1`;
  interface Sent {
    key?: string;
    body?: unknown;
    /** The Idempotency-Key. */
    retry?: string;
  }
  const send = async (status: number, method: string, path: string, { key = holder.key, body, retry }: Sent = {}) => {
    const response = await fetch(url + path, {
      method,
      headers: {
        Authorization: `Bearer ${key}`,
        ...(body !== undefined && { "Content-Type": "application/json" }),
        ...(retry !== undefined && { "Idempotency-Key": retry }),
      },
      body: body === undefined ? null : JSON.stringify(body),
    });
    expect(response.headers.get("sl-violations"), `${method} ${path}`).toBeNull();
    expect(response.headers.get("x-correlation-id"), `${method} ${path} reached the server`).not.toBeNull();
    expect(response.status, `${method} ${path}`).toBe(status);
    return (await response.json()) as { id: string; nextCursor: string };
  };
  const body = uniqueStay(listingId);
  const { id } = await send(201, "POST", "/forms", { body, retry: "prism" });
  await send(201, "POST", "/forms", { body: uniqueStay(listingId) });
  await send(201, "POST", "/forms", { body, retry: "prism" });
  const { nextCursor } = await send(200, "GET", `/forms?limit=1&listingId=${listingId}`);
  await send(200, "GET", `/forms?limit=1&listingId=${listingId}&cursor=${nextCursor}`);
  await send(200, "PUT", `/forms/${id}`, { body: uniqueStay(listingId) });
  await send(200, "GET", `/forms/${id}`);
  await send(200, "GET", "/listings");
  await send(200, "GET", `/listings/${listingId}`);
  await send(401, "GET", `/forms/${id}`, { key: "grf_ro_wrong" });
  await send(403, "PUT", `/forms/${id}`, { body, key: holder.readOnlyKey });
  await send(404, "GET", "/listings/00000000-0000-4000-8000-000000000000");
  await send(400, "GET", "/forms?cursor=altered");
  await send(400, "POST", "/forms", { body: { ...body, checkOutDate: body.checkInDate } });
  await send(422, "POST", "/forms", { body: uniqueStay(listingId), retry: "prism" });
  // Control: a request that the document does not allow is reported.
  const invalid = await fetch(`${url}/forms?limit=many`, { headers: { "X-API-Key": holder.key } });
  expect(invalid.headers.get("sl-violations")).toContain("limit");
  await prism.stopOrKill();
});
