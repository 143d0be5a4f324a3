import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { packageRoot } from "../../prisma/package-root.js";

// What test/cluster/patroni.cluster.ts shows every night depends on these.

const read = (name: string) => readFileSync(join(packageRoot(), "deploy", name), "utf8");
const config = parse(read("patroni.yml"));
const { dcs } = config.bootstrap;

test("Patroni promotes only a standby that has every acknowledged write", () => {
  expect(dcs).toMatchObject({ synchronous_mode: true, synchronous_mode_strict: true, check_timeline: true });
  // With `etcd3`, Patroni 3.0.2 lets a leader that has hung take the lock of the new one.
  expect(config).toHaveProperty("etcd");
  expect(config).not.toHaveProperty("etcd3");
});

test("a leader that cannot reach etcd steps down, and HAProxy closes the connections to one that hangs, before its lock ends", () => {
  const { ttl, loop_wait, retry_timeout } = dcs;
  expect(loop_wait + 2 * retry_timeout).toBeLessThanOrEqual(ttl);
  const [, primary = ""] =
    /listen primary\n([\s\S]*?)\nlisten/.exec(read("haproxy-patroni.cfg").replaceAll(/#.*/g, "")) ?? [];
  const [, inter, fastinter, fall] =
    /inter (\d+)s fastinter (\d+)ms .* fall (\d+) .* shutdown-sessions/.exec(primary) ?? [];
  const [, timeout] = /timeout check (\d+)s/.exec(read("haproxy-patroni.cfg")) ?? [];
  const detectionSeconds =
    Number(inter) + Number(fall) * Number(timeout) + (Number(fall) - 1) * (Number(fastinter) / 1_000);
  expect(detectionSeconds).toBe(4.5);
  expect(detectionSeconds).toBeLessThan(ttl - loop_wait);
});

test("passwords, addresses and names in deploy/patroni.yml are placeholders", () => {
  const { restapi, name, postgresql } = config;
  const passwords = [restapi.authentication, ...Object.values(postgresql.authentication)].map(
    ({ password }) => password,
  );
  expect(passwords).toEqual(["REST_PASSWORD", undefined, "REPLICATION_PASSWORD", "REWIND_PASSWORD"]);
  expect(name).toBe("NODE_NAME");
  for (const { listen, connect_address } of [restapi, postgresql])
    expect([listen, connect_address].join()).toMatch(/^NODE_ADDRESS:\d+,NODE_ADDRESS:\d+$/);
});
