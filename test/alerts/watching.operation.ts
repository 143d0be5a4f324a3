import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { packageRoot } from "../../prisma/package-root.js";
import { generateKey } from "../../server/keys/authenticator.js";
import { TOKEN } from "../internal/internal-gateway.js";
import { describeWithBinary, findCommand } from "../support/describe-with-binary.js";
import { createRedis, type ExternalServer } from "../support/external-server.js";
import { startLoad } from "../support/http-client.js";
import { freePort } from "../support/network.js";
import { operatingBlock, runFromPage, runScript } from "../support/operating-page.js";
import { makeTempFolder } from "../support/run-tool.js";
import { readQueries } from "./dashboard.js";
import { type Prometheus, startPrometheus } from "./prometheus.js";
import { BAD_KEY_LIMIT, startWatchedService, type WatchedService } from "./watched-service.js";

/** Several evaluations of the rules. */
const QUIET_MS = 5_000;

/** Shortens the windows and waiting times of the alerts. Crashes are counted for longer, because restarts take seconds. */
const shorten = (rules: string) =>
  rules
    .replaceAll(/\[(2m|5m|15m|1h)\]/g, "[6s]")
    .replaceAll("[10m]", "[1m]")
    .replaceAll(/for: \w+/g, "for: 1s");

/** Gauges of prom-client that end with `_total`, against the conventions. */
const NOT_OURS = /nodejs_active_(handles|requests|resources)_total/;

const readRoot = (path: string) => readFileSync(join(packageRoot(), path), "utf8");
describeWithBinary("redis-server", "watched by Prometheus", (redisBinary) => {
  describeWithBinary("prometheus", "the service", (binary) => {
    let watched: WatchedService;
    let redis: ExternalServer;
    let folder: string;
    let prometheus: Prometheus;

    beforeAll(async () => {
      redis = createRedis(redisBinary, await freePort());
      await redis.start();
      folder = await makeTempFolder("prometheus");
      watched = await startWatchedService(redis);
    });
    afterAll(() => watched.load.stop());

    /** Runs the block of gateway/docs/operating.md that contains `text` in the test's folders. */
    const runBlock = async (text: string) => {
      const replace = {
        "/etc/prometheus": folder,
        "/opt/guest-forms": packageRoot(),
        "http://127.0.0.1:3001": watched.url,
      };
      const { stdout } = await runFromPage(operatingBlock(text), (script) =>
        runScript(script, { env: { INTERNAL_TOKEN: TOKEN }, replace }),
      );
      return stdout;
    };

    const findFiring = async () => {
      const alerts = (await prometheus.alerts()).filter(({ state }) => state === "firing");
      return [...new Set(alerts.map(({ labels }) => String(labels.alertname)))].sort();
    };

    /** Waits until each of these has fired in the last minute. Others may fire as a consequence, or on a busy machine. */
    const expectFired = (names: string[]) =>
      expect
        .poll(async () => {
          const fired = 'count by (alertname) (count_over_time(ALERTS{alertstate="firing"}[1m]))';
          const found = (await prometheus.query(fired)).map(({ metric }) => String(metric.alertname));
          return found.filter((name) => names.includes(name)).sort();
        })
        .toEqual(names.sort());

    const expectResolved = (names: string[]) =>
      expect.poll(async () => (await findFiring()).filter((name) => names.includes(name))).toEqual([]);

    const findWithoutData = async (queries: string[]) => {
      const results = await Promise.all(queries.map((expr) => prometheus.query(expr)));
      return queries.filter((_, n) => !results[n]?.some(({ value: [, value] }) => value !== "NaN"));
    };

    /** Kills a gateway process, and waits until its replacement listens. */
    const crashProcess = async () => {
      const readPids = () => [...watched.service.stderr.matchAll(/"pid":(\d+).*"msg":"listening"/g)];
      const pids = readPids();
      process.kill(Number(pids.at(-1)?.[1]), "SIGKILL");
      await expect.poll(() => readPids().length).toBe(pids.length + 1);
    };

    test("the commands of operating.md read the metrics, and install the token and the rules", async () => {
      expect(await runBlock("curl --fail")).toContain("guest_forms_build_info{");
      await runBlock("guest-forms.token");
      const configuration = readRoot("deploy/prometheus/prometheus.yml")
        .replaceAll(/interval: \w+/g, "interval: 2s")
        .replace("127.0.0.1:3001", new URL(watched.url).host);
      writeFileSync(join(folder, "prometheus.yml"), configuration);
      expect(await runBlock("promtool check config")).toContain("SUCCESS: 1 rule files found");

      const rules = join(folder, "guest-forms-alerts.yml");
      writeFileSync(rules, shorten(readFileSync(rules, "utf8")));
      prometheus = await startPrometheus(binary, folder);
    });

    test("promtool accepts the names and types of all metrics of the service", async () => {
      const lines = (await runBlock("curl --fail")).split("\n").filter((line) => !NOT_OURS.test(line));
      expect(lines.filter((line) => line.startsWith("# TYPE guest_forms_")).length).toBeGreaterThan(15);
      const promtool = findCommand("promtool") ?? "";
      expect(execFileSync(promtool, ["check", "metrics"], { input: lines.join("\n") }).toString()).toBe("");
    });

    test("no alert fires while the service works, and every query of the dashboard returns data", async () => {
      expect(await watched.create()).toBe(201);
      expect((await watched.get("/v1/forms", "malformed")).status).toBe(401);
      await expect.poll(() => prometheus.query('up{job="guest-forms"} == 1')).toHaveLength(1);
      const queries = readQueries().filter((expr) => !expr.startsWith("count by (alertname) (ALERTS{"));
      expect(queries.length).toBe(readQueries().length - 1);
      await expect.poll(() => findWithoutData(queries)).toEqual([]);
      await expect.poll(findFiring).toEqual([]);
      for (const until = performance.now() + QUIET_MS; performance.now() < until; await sleep(500))
        expect(await findFiring()).toEqual([]);
    });

    test("alerts fire if Redis is lost, emails fail, keys are guessed, a statement fails, addresses are not erased or processes crash", async () => {
      const { pool } = watched.fixture.services.db;
      await redis.kill();
      watched.mailServer.rcptErrors.push(
        { code: 550, text: "no such mailbox" },
        ...Array.from({ length: 100 }, () => ({ code: 451, text: "busy" })),
      );
      for (let emails = 0; emails < 6; emails++) expect(await watched.create()).toBe(201);
      for (let keys = 0; keys < 3 * BAD_KEY_LIMIT; keys++)
        await watched.get("/v1/forms", generateKey("READ_ONLY"));
      await pool.query("ALTER TABLE creations RENAME TO gone");
      expect(await watched.create()).toBe(500);
      await pool.query("ALTER TABLE gone RENAME TO creations");
      await pool.query(
        "UPDATE worker_activity SET last_at = now() - interval '3 hours' WHERE name = 'retention.run'",
      );
      await expectFired([
        "GuestFormsRedisUnreachable",
        "GuestFormsNotificationsRetrying",
        "GuestFormsNotificationsFailed",
        "GuestFormsKeyGuessing",
        "GuestFormsBugs",
        "GuestFormsRetentionOverdue",
      ]);
      expect(await findWithoutData(readQueries().filter((expr) => expr.includes("ALERTS{")))).toEqual([]);
      for (const { annotations } of await prometheus.alerts())
        expect(Object.values(annotations).join("\n")).not.toMatch(/<error|<no value>|%!/);

      await redis.start();
      for (let crashes = 1; crashes <= 3; crashes++) await crashProcess();
      await expectFired(["GuestFormsRestarting"]);
      await expectResolved(["GuestFormsRedisUnreachable", "GuestFormsKeyGuessing"]);
    });

    test("alerts fire if the database does not answer, and are resolved when it is back", async () => {
      watched.database.freeze();
      // A new key each, because requests with the same key share a look-up.
      const burst = startLoad(20, () => watched.get("/v1/forms", generateKey("READ_ONLY")), 100);
      const outage = ["GuestFormsDatabaseUnreachable", "GuestFormsErrors", "GuestFormsPoolExhausted"];
      await expectFired(outage).finally(() => burst.stop());
      expect(await findFiring()).not.toContain("GuestFormsNoWorker");
      watched.database.restore();
      await expectResolved(outage);
    });

    test("an alert fires if the service is stopped", async () => {
      await watched.load.stop();
      await watched.service.stop();
      await expectFired(["GuestFormsDown"]);
    });
  });
});
