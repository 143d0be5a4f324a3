import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { packageRoot } from "../../prisma/package-root.js";
import { readSettings, settingsSchema } from "../../server/config.js";
import { listenLocally } from "../support/network.js";
import { spawnNode } from "../support/processes.js";

const read = (name: string) => readFileSync(join(packageRoot(), name), "utf8");

describe("compose.yaml", () => {
  interface Service {
    image: string;
    environment?: Record<string, string>;
    healthcheck?: { test?: string[] };
    depends_on?: Record<string, { condition: string }>;
    ports?: string[];
    mem_limit?: string;
    read_only?: boolean;
    tmpfs?: string[];
    volumes?: string[];
    profiles?: string[];
    logging?: { driver: string; options: Record<string, string> };
  }
  const OWN = ["migrate", "gateway", "worker", "cli"];
  const { services } = parse(read("compose.yaml"), { merge: true }) as { services: Record<string, Service> };

  test("compose.yaml has every part of the service, and starts each after its dependencies are healthy", () => {
    expect(Object.keys(services).sort()).toEqual(["cli", "gateway", "migrate", "postgres", "redis", "worker"]);
    expect(services.postgres?.image).toMatch(/^postgres:18\.\d+-trixie@sha256:[0-9a-f]{64}$/);
    expect(services.redis?.image).toMatch(/^redis:7\.\d+\.\d+-bookworm@sha256:[0-9a-f]{64}$/);
    const migrated = { migrate: { condition: "service_completed_successfully" } };
    const healthy = (name: string) => ({ [name]: { condition: "service_healthy" } });
    expect(services.migrate?.depends_on).toEqual(healthy("postgres"));
    expect(services.gateway?.depends_on).toEqual({ ...migrated, ...healthy("redis") });
    for (const name of ["worker", "cli"]) expect(services[name]?.depends_on).toEqual(migrated);
    for (const { image, healthcheck } of [services.postgres, services.redis] as Service[]) {
      expect(healthcheck?.test?.length, image).toBeGreaterThan(0);
    }
  });

  test("compose.yaml has only known settings with valid values, no secrets, memory limits, and ports on 127.0.0.1 only", () => {
    for (const name of OWN) {
      const { environment = {} } = services[name] ?? {};
      for (const setting of Object.keys(environment)) expect(Object.keys(settingsSchema.shape)).toContain(setting);
      expect(environment.APP_SECRETS).toMatch(/^\$\{APP_SECRETS:\?.+\}$/);
      expect(environment.DATABASE_URL).toMatch(/:\$\{POSTGRES_PASSWORD:\?[^}]+\}@/);
      const filled = Object.entries(environment).map(([key, value]) => [
        key,
        value.replace(/\$\{\w+:\?[^}]*\}/g, "x".repeat(32)).replace(/\$\{\w+:-\}/g, ""),
      ]);
      expect(readSettings(Object.fromEntries(filled)).PORT).toBe(3000);
    }
    for (const [name, { ports = [], mem_limit }] of Object.entries(services)) {
      for (const port of ports) expect(port, "not open to the network").toMatch(/^127\.0\.0\.1:/);
      expect(mem_limit, name).toMatch(/^\d+[mg]$/);
    }
    const { INTERNAL_HOST, INTERNAL_PORT } = services.gateway?.environment ?? {};
    expect(INTERNAL_HOST).toBe("0.0.0.0");
    // The console opens at the address that operating.md names.
    expect(services.gateway?.ports).toContain(`127.0.0.1:3001:${INTERNAL_PORT}`);
    for (const name of ["SMTP_URL", "SMTP_FROM", "FORM_URL_TEMPLATE"])
      expect(services.worker?.environment?.[name]).toBe(`\${${name}:-}`);
  });

  test("only commands can write to /data, which is the folder data; the service can read the templates in it and write to /tmp only", () => {
    for (const name of OWN) {
      const { read_only, tmpfs, volumes } = services[name] ?? {};
      expect({ read_only, tmpfs, volumes }).toEqual({
        read_only: true,
        tmpfs: [expect.stringMatching(/^\/tmp:size=\d+m$/)],
        volumes: [name === "cli" ? "./data:/data" : "./data/emails:/data/emails:ro"],
      });
    }
    expect(read(".gitignore").split("\n")).toContain("/data/");
    expect(read("gateway/docs/operating.md")).toContain("EMAIL_TEMPLATES=/data/emails");
  });

  test("commands run in the service cli, which `docker compose up` does not start", () => {
    for (const [name, { profiles }] of Object.entries(services))
      expect(profiles, name).toEqual(name === "cli" ? ["cli"] : undefined);
    for (const name of ["compose.yaml", "gateway/docs/operating.md"])
      expect(new Set(read(name).match(/docker compose run --rm \w+/g))).toEqual(
        new Set(["docker compose run --rm cli"]),
      );
  });

  test("the log of each container is rotated", () => {
    for (const [name, { logging }] of Object.entries(services))
      expect(logging, name).toEqual({
        driver: "json-file",
        options: { "max-size": expect.stringMatching(/^\d+m$/), "max-file": expect.stringMatching(/^\d+$/) },
      });
  });
});

describe("Dockerfile", () => {
  const text = read("Dockerfile");
  const lines = text.split("\n").filter((line) => /^[A-Z]/.test(line));

  test("the image is built on a pinned Node.js 24, from files that .dockerignore includes", () => {
    const copied = lines.flatMap((line) => /^COPY (?!--from)(.+) \S+$/.exec(line)?.[1]?.split(" ") ?? []);
    const included = read(".dockerignore").split("\n");
    for (const path of copied) expect(included).toContain(`!${path.split("/")[0]}`);
    expect(text).toMatch(/^ARG NODE_IMAGE=node:24[\w.-]*-slim@sha256:[0-9a-f]{64}$/m);
    for (const image of lines.filter((line) => line.startsWith("FROM ")))
      expect(image).toMatch(/^FROM \$\{NODE_IMAGE\}( AS build)?$/);
  });

  test("the health check requests /livez, so that an outage of the database restarts no container, and accepts only 200", async () => {
    const [, command = "[]"] = /^HEALTHCHECK .* CMD (\[.*\])$/m.exec(text) ?? [];
    const [node, ...args] = JSON.parse(command) as string[];
    expect(node).toBe("node");
    let status = 200;
    const server = createServer((req, res) => res.writeHead(req.url === "/livez" ? status : 404).end());
    const PORT = String(await listenLocally(server));
    const exitCode = async () => (await spawnNode(args, { env: { PORT } }).done).code;
    expect(await exitCode()).toBe(0);
    status = 503;
    expect(await exitCode()).toBe(1);
    server.close();
    server.closeAllConnections();
    expect(await exitCode()).toBe(1);
  });
});
