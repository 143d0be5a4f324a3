import { chmod, chown, copyFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { explain } from "../../gateway/cli/failure.js";
import { connectionOf } from "../../prisma/connection.js";
import { migrate } from "../../prisma/migrate.js";
import { LOCALHOST_PEM } from "../support/hostile-receivers.js";
import { PostgresCluster } from "../support/postgres-cluster.js";
import { runCli } from "../support/processes.js";
import { runSql } from "../support/run-sql.js";
import { makeTempFolder } from "../support/run-tool.js";
import { catchError, openTestDb } from "./open-test-db.js";

const cluster = await PostgresCluster.create();
afterAll(() => cluster.remove());

/** Of a database on the server, by its host name, which the certificate has, unless `host` is given. */
function urlWith(parameters: string, host = "localhost", database = "postgres"): string {
  const url = new URL(cluster.url);
  Object.assign(url, { hostname: host, pathname: database, search: parameters });
  return url.href;
}

const TLS = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";

/** Whether the connection of the service uses TLS, or what a command says if there is none. */
async function connect(url: string): Promise<string | boolean> {
  try {
    const [row] = await openTestDb({ DATABASE_URL: url }).query<{ ssl: boolean }>("tls", TLS, []);
    return row?.ssl ?? "";
  } catch (error) {
    return explain(error, { databaseUrl: url }).message;
  }
}

const trusted = `sslrootcert=${LOCALHOST_PEM}`;
const NO_TLS =
  /^The database at localhost:\d+ cannot be used: The server does not support SSL connections\. Enable TLS on the server, or set sslmode=disable in DATABASE_URL\.$/;

test("a server without TLS is used with sslmode=disable or none, and any other sslmode says what to do", async () => {
  for (const parameters of ["", "sslmode=disable", "ssl=false"]) expect(await connect(urlWith(parameters))).toBe(false);
  for (const mode of ["require", "verify-ca", "verify-full", "no-verify"])
    expect(await connect(urlWith(`sslmode=${mode}`))).toMatch(NO_TLS);
});

test("on a server with TLS, require, verify-ca and verify-full verify the certificate and the host name, and no-verify nothing", async () => {
  await enableTls();
  expect(await connect(urlWith("sslmode=disable"))).toBe(false);
  for (const mode of ["require", "verify-ca", "verify-full"]) {
    expect(await connect(urlWith(`sslmode=${mode}&${trusted}`))).toBe(true);
    expect(await connect(urlWith(`sslmode=${mode}`))).toMatch(
      /cannot be used: self-signed certificate.*\. This machine does not know .*: add sslrootcert=FILE to DATABASE_URL, with the certificate of the authority\.$/,
    );
    expect(await connect(urlWith(`sslmode=${mode}&${trusted}`, "127.0.0.1"))).toMatch(
      /cannot be used: .*altnames.*\. Use a host name of its certificate in DATABASE_URL\.$/,
    );
  }
  for (const parameters of ["ssl=true", "sslmode=require&uselibpqcompat=true", "sslnegotiation=direct"])
    expect(await connect(urlWith(parameters))).toMatch(/self-signed certificate/);
  for (const parameters of ["sslmode=no-verify", "ssl=no-verify", trusted, `sslnegotiation=direct&${trusted}`])
    expect(await connect(urlWith(parameters))).toBe(true);
  const file = join(await makeTempFolder("tls"), "ca.pem");
  expect(() => connectionOf(urlWith(`sslmode=require&sslrootcert=${file}`))).toThrow(
    `Cannot read ${file} (ENOENT): check sslrootcert in the URL of the database.`,
  );
});

test("migrations and commands connect by the same rules, and nothing of the driver is printed", async () => {
  await runSql(cluster.url, "CREATE DATABASE forms");
  const untrusted = urlWith("sslmode=require", "localhost", "forms");
  const failure = await catchError(migrate(untrusted));
  expect(explain(failure, { databaseUrl: untrusted }).message).toMatch(
    /self-signed certificate.*\. .*sslrootcert=FILE/,
  );
  const DATABASE_URL = urlWith(`sslmode=require&${trusted}`, "localhost", "forms");
  const migrated = await runCli(["migrate"], { env: { DATABASE_URL } });
  expect(migrated).toMatchObject({ code: 0, stderr: expect.not.stringMatching(/warning|verify/i) });
  const { stdout, stderr } = await runCli(["doctor"], { env: { DATABASE_URL } });
  expect({ stdout, stderr }).toEqual({ stdout: expect.stringMatching(/^ok +database /), stderr: "" });
});

test.each<[required: string, settings: string[], reason: string]>([
  ["TLS 1.1", ["ssl_min_protocol_version = 'TLSv1'", "ssl_max_protocol_version = 'TLSv1.1'"], "alert protocol version"],
  [
    "another cipher",
    ["ssl_max_protocol_version = 'TLSv1.2'", "ssl_ciphers = 'PSK-AES128-CBC-SHA256'"],
    "alert handshake failure",
  ],
])("a server that requires %s says that TLS failed, why and what to check", async (_, settings, reason) => {
  for (const setting of settings) await runSql(cluster.url, `ALTER SYSTEM SET ${setting}`);
  await runSql(cluster.url, "SELECT pg_reload_conf()");
  await expect
    .poll(() => connect(urlWith(`sslmode=require&${trusted}`)))
    .toBe(
      `The database at localhost:${cluster.port} cannot be used: TLS failed: ${reason}. Check that the server accepts TLS 1.2 or 1.3 and common ciphers. If it requires a client certificate, add sslcert and sslkey to DATABASE_URL.`,
    );
  for (const setting of settings) await runSql(cluster.url, `ALTER SYSTEM RESET ${setting.split(" ")[0]}`);
  await runSql(cluster.url, "SELECT pg_reload_conf()");
  await expect.poll(() => connect(urlWith(`sslmode=require&${trusted}`))).toBe(true);
});

test("a server that accepts only TLS says so to a connection without it", async () => {
  const rules = join(cluster.dataDir, "cluster/pg_hba.conf");
  await writeFile(rules, `hostssl all all 127.0.0.1/32 scram-sha-256\n`);
  await runSql(cluster.url, "SELECT pg_reload_conf()");
  await expect
    .poll(() => connect(urlWith("")))
    .toMatch(/rejected a connection without TLS\. If it accepts only TLS, add sslmode=verify-full to DATABASE_URL\.$/);
  expect(await connect(urlWith(`sslmode=verify-full&${trusted}`))).toBe(true);
});

/** Gives the running server the certificate of localhost. */
async function enableTls(): Promise<void> {
  const folder = join(cluster.dataDir, "cluster");
  const file = join(folder, "server.pem");
  await copyFile(LOCALHOST_PEM, file);
  const { uid, gid } = await stat(folder);
  await chown(file, uid, gid);
  await chmod(file, 0o600);
  for (const name of ["ssl_cert_file", "ssl_key_file"])
    await runSql(cluster.url, `ALTER SYSTEM SET ${name} = 'server.pem'`);
  await runSql(cluster.url, "ALTER SYSTEM SET ssl = on");
  await runSql(cluster.url, "SELECT pg_reload_conf()");
  await expect.poll(() => connect(urlWith("sslmode=no-verify"))).toBe(true);
}
