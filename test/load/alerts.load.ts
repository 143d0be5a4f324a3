import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import { generateKey } from "../../server/keys/authenticator.js";
import { spawnInternalGateway, TOKEN } from "../internal/internal-gateway.js";
import { describeWithBinary, findCommand } from "../support/describe-with-binary.js";
import { createRedis, ExternalServer } from "../support/external-server.js";
import { type Fixture, makeFixture } from "../support/gateway-processes.js";
import { type Load, sendRequest, startLoad } from "../support/http-client.js";
import { mailEnv, startMailServer } from "../support/mail-server.js";
import { freePort, restartablePort } from "../support/network.js";
import { operatingBlock, runFromPage, runScript } from "../support/operating-page.js";
import type { RunningProcess } from "../support/processes.js";
import { makeTempFolder } from "../support/run-tool.js";
import { uniqueStay } from "../support/stays.js";
import { readQueries } from "./dashboard.js";

/** Several evaluations of the rules. */
const QUIET_MS = 5_000;
const BAD_KEY_LIMIT = 3;

/** Shortens the windows and waiting times of the alerts. Crashes are counted for longer, because restarts take seconds. */
const shorten = (rules: string) =>
  rules
    .replaceAll(/\[(2m|5m|15m|1h)\]/g, "[6s]")
    .replaceAll("[10m]", "[1m]")
    .replaceAll(/for: \w+/g, "for: 1s");

/** Gauges of prom-client that end with `_total`, against the conventions. */
const NOT_OURS = /nodejs_active_(handles|requests|resources)_total/;

interface Sample {
  metric: Record<string, string>;
  value: [unixTime: number, value: string];
}

interface Alert {
  labels: Record<string, string>;
  annotations: Record<string, string>;
  state: "pending" | "firing";
}

describeWithBinary("redis-server", "watched by Prometheus", (redisBinary) => {
  describeWithBinary("prometheus", "the service", (binary) => {
    let fixture: Fixture;
    let redis: ExternalServer;
    let mailServer: Awaited<ReturnType<typeof startMailServer>>;
    let folder: string;
    let env: Record<string, string>;
    let service: RunningProcess;
    /** Address of the internal port. */
    let internalUrl: string;
    let publicUrl: string;
    let load: Load;
    const prometheusPort = freePort();

    beforeAll(async () => {
      redis = createRedis(redisBinary, await freePort());
      await redis.start();
      folder = await makeTempFolder("prometheus");
      fixture = await makeFixture();
      mailServer = await startMailServer();
      env = {
        ...fixture.env,
        ...mailEnv(mailServer.url),
        REDIS_URL: `redis://127.0.0.1:${redis.port}`,
        BAD_KEY_LIMIT_MAX: String(BAD_KEY_LIMIT),
        PORT: String(await restartablePort()),
        INTERNAL_PORT: String(await restartablePort()),
      };
      await startService();
      load = startLoad(2, () => get("/v1/forms"), 50);
    });
    afterAll(async () => {
      await load.stop();
      await mailServer.close();
    });

    const startService = async () => {
      ({ url: internalUrl, publicUrl, service } = await spawnInternalGateway([], env));
    };

    const get = (path: string, key = fixture.key.key) => sendRequest(publicUrl + path, key);
    /** Creates a form with an email address, and returns the status. */
    const create = async () => {
      const body = uniqueStay(fixture.listing.id, { guestEmail: "guest@example.com" });
      return (await sendRequest(`${publicUrl}/v1/forms`, fixture.key.key, { method: "POST", body })).status;
    };

    const ask = async <Data>(path: string): Promise<Data> => {
      const response = await fetch(`http://127.0.0.1:${await prometheusPort}/api/v1/${path}`);
      const { status, error, data } = (await response.json()) as { status: string; error?: string; data: Data };
      if (status !== "success") throw new Error(`${path}: ${error}`);
      return data;
    };
    const query = async (expr: string) =>
      (await ask<{ result: Sample[] }>(`query?query=${encodeURIComponent(expr)}`)).result;
    const readAlerts = async () => (await ask<{ alerts: Alert[] }>("alerts")).alerts;

    /** Runs the block of gateway/docs/operating.md that contains `text` in the test's folders. */
    const runBlock = async (text: string) => {
      const replace = {
        "/etc/prometheus": folder,
        "/opt/guest-forms": packageRoot(),
        "http://127.0.0.1:3001": internalUrl,
      };
      const { stdout } = await runFromPage(operatingBlock(text), (script) =>
        runScript(script, { env: { INTERNAL_TOKEN: TOKEN }, replace }),
      );
      return stdout;
    };

    const findFiring = async () => {
      const alerts = (await readAlerts()).filter(({ state }) => state === "firing");
      return [...new Set(alerts.map(({ labels }) => String(labels.alertname)))].sort();
    };

    /** Waits until each of these has fired in the last minute. Others may fire as a consequence, or on a busy machine. */
    const expectFired = (names: string[]) =>
      expect
        .poll(async () => {
          const fired = 'count by (alertname) (count_over_time(ALERTS{alertstate="firing"}[1m]))';
          const found = (await query(fired)).map(({ metric }) => String(metric.alertname));
          return found.filter((name) => names.includes(name)).sort();
        })
        .toEqual(names.sort());

    const expectResolved = (names: string[]) =>
      expect.poll(async () => (await findFiring()).filter((name) => names.includes(name))).toEqual([]);

    const findWithoutData = async (queries: string[]) => {
      const results = await Promise.all(queries.map((expr) => query(expr)));
      return queries.filter((_, n) => !results[n]?.some(({ value: [, value] }) => value !== "NaN"));
    };

    const readStart = async () => {
      const [sample] = await query('process_start_time_seconds{job="guest-forms"}');
      return Number(sample?.value[1]);
    };

    /** Kills the process, starts it again in another second, which the metric counts, and waits until Prometheus has noticed. */
    const crashProcess = async () => {
      const before = await readStart();
      await service.stop("SIGKILL");
      await expect.poll(() => Math.floor(Date.now() / 1000)).toBeGreaterThan(before);
      await startService();
      await expect.poll(readStart).toBeGreaterThan(before);
    };

    test("the commands of operating.md read the metrics, and install the token and the rules", async () => {
      expect(await runBlock("/metrics")).toContain("guest_forms_build_info{");
      await runBlock("guest-forms.token");
      const configuration = readFileSync(join(packageRoot(), "deploy/prometheus/prometheus.yml"), "utf8")
        .replaceAll(/interval: \w+/g, "interval: 2s")
        .replace("127.0.0.1:3001", new URL(internalUrl).host);
      writeFileSync(join(folder, "prometheus.yml"), configuration);
      expect(await runBlock("promtool check config")).toContain("SUCCESS: 1 rule files found");

      const rules = join(folder, "guest-forms-alerts.yml");
      writeFileSync(rules, shorten(readFileSync(rules, "utf8")));
      const port = await prometheusPort;
      const files = [`--config.file=${folder}/prometheus.yml`, `--storage.tsdb.path=${folder}/data`];
      const args = [...files, `--web.listen-address=127.0.0.1:${port}`];
      await new ExternalServer(binary, args, port).start();
    });

    test("promtool accepts the names and types of all metrics of the service", async () => {
      const lines = (await runBlock("/metrics")).split("\n").filter((line) => !NOT_OURS.test(line));
      expect(lines.filter((line) => line.startsWith("# TYPE guest_forms_")).length).toBeGreaterThan(15);
      const promtool = findCommand("promtool") ?? "";
      expect(execFileSync(promtool, ["check", "metrics"], { input: lines.join("\n") }).toString()).toBe("");
    });

    test("no alert fires while the service works, and every query of the dashboard returns data", async () => {
      expect(await create()).toBe(201);
      expect((await get("/v1/forms", "malformed")).status).toBe(401);
      await expect.poll(() => query('up{job="guest-forms"} == 1')).toHaveLength(1);
      const queries = readQueries().filter((expr) => !expr.startsWith("count by (alertname) (ALERTS{"));
      expect(queries.length).toBe(readQueries().length - 1);
      await expect.poll(() => findWithoutData(queries)).toEqual([]);
      await expect.poll(findFiring).toEqual([]);
      for (const until = performance.now() + QUIET_MS; performance.now() < until; await sleep(500))
        expect(await findFiring()).toEqual([]);
    });

    test("alerts fire if Redis is lost, emails fail, keys are guessed, a statement fails, addresses are not erased or the process crashes", async () => {
      const { pool } = fixture.services.db;
      await redis.kill();
      mailServer.rcptErrors.push(
        { code: 550, text: "no such mailbox" },
        ...Array.from({ length: 100 }, () => ({ code: 451, text: "busy" })),
      );
      for (let emails = 0; emails < 6; emails++) expect(await create()).toBe(201);
      for (let keys = 0; keys < 3 * BAD_KEY_LIMIT; keys++) await get("/v1/forms", generateKey("READ_ONLY"));
      await pool.query("ALTER TABLE creations RENAME TO gone");
      expect(await create()).toBe(500);
      await pool.query("ALTER TABLE gone RENAME TO creations");
      await pool.query("UPDATE worker_activity SET last_at = now() - interval '3 hours' WHERE name = 'retention.run'");
      await expectFired([
        "GuestFormsRedisUnreachable",
        "GuestFormsEmailsRetrying",
        "GuestFormsEmailsFailed",
        "GuestFormsKeyGuessing",
        "GuestFormsBugs",
        "GuestFormsRetentionOverdue",
      ]);
      expect(await findWithoutData(readQueries().filter((expr) => expr.includes("ALERTS{")))).toEqual([]);
      for (const { annotations } of await readAlerts())
        expect(Object.values(annotations).join("\n")).not.toMatch(/<error|<no value>|%!/);

      await redis.start();
      for (let crashes = 1; crashes <= 3; crashes++) await crashProcess();
      await expectFired(["GuestFormsRestarting"]);
      await expectResolved(["GuestFormsRedisUnreachable", "GuestFormsKeyGuessing"]);
    });
  });
});
