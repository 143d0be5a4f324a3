import { readFileSync } from "node:fs";
import { createServer, type TlsOptions } from "node:tls";
import { expect, onTestFinished, test } from "vitest";
import { LOCALHOST_PEM } from "../support/hostile-receivers.js";
import { mailEnv } from "../support/mail-server.js";
import { listenLocally } from "../support/network.js";
import { runCli } from "../support/processes.js";

// What is said about a server with TLS that rejects the service's. Servers without TLS are in test/commands/misconfigurations.test.ts,
// and Postgres is in test/server/postgres-tls.test.ts.

const pem = readFileSync(LOCALHOST_PEM, "utf8");

/** Returns host and port of a server that speaks only TLS, with these options. Closed after the test. */
async function openTlsServer(options: TlsOptions): Promise<string> {
  const server = createServer({ key: pem, cert: pem, ...options }, (socket) => socket.on("error", () => {}));
  const port = await listenLocally(server);
  onTestFinished(() => void server.close());
  return `localhost:${port}`;
}

const CLIENT_CERTIFICATE = { requestCert: true, rejectUnauthorized: true };

test.each<[required: string, options: TlsOptions, reason: string]>([
  ["TLS 1.1", { minVersion: "TLSv1.1", maxVersion: "TLSv1.1" }, "alert protocol version"],
  ["a client certificate", CLIENT_CERTIFICATE, "alert certificate required"],
  ["a client certificate in TLS 1.2", { ...CLIENT_CERTIFICATE, maxVersion: "TLSv1.2" }, "alert handshake failure"],
  ["another cipher", { ciphers: "PSK-AES128-CBC-SHA256", maxVersion: "TLSv1.2" }, "alert handshake failure"],
])(
  "doctor says why TLS failed and what to check if Redis or the mail server requires %s",
  async (_, options, reason) => {
    const host = await openTlsServer(options);
    const env = {
      ...mailEnv(`smtps://host:s3cr3t@${host}`),
      REDIS_URL: `rediss://:s3cr3t@${host}`,
      NODE_EXTRA_CA_CERTS: LOCALHOST_PEM,
    };
    const { stdout } = await runCli(["doctor"], { env });
    const advice = "Check that the server accepts TLS 1.2 or 1.3, common ciphers, and clients without a certificate.";
    for (const server of ["The mail server", "Redis"])
      expect(stdout).toContain(` ${server} at ${host} cannot be used: TLS failed: ${reason}. ${advice}\n`);
    expect(stdout).not.toContain("s3cr3t");
  },
);
