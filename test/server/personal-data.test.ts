import { beforeAll, describe, expect, test } from "vitest";
import {
  type CapturedOutput,
  captureOutput,
  findSecrets,
  readAllRows,
  readDataFiles,
} from "../support/personal-data.js";

describe("API keys and guests' addresses", () => {
  let output: CapturedOutput;

  beforeAll(async () => {
    output = await captureOutput();
  }, 150_000);

  test("are stored in no table, neither as text nor in hex or base64", async () => {
    const tables = await readAllRows(output.databaseUrl);
    expect([...tables.keys()]).toEqual(
      expect.arrayContaining(["forms", "creations", "audit_entries", "notifications"]),
    );
    // Proves that the search covers real rows: sealed bytes and an SMTP error.
    expect(tables.get("forms")).toContain("\\\\x01");
    expect(tables.get("notifications")).toMatch(/550 /);
    for (const [table, rows] of tables)
      expect([table, findSecrets(rows, output.secrets)]).toEqual([table, []]);
  });

  test("are in no file of a physical backup", async () => {
    const files = await readDataFiles(output.databaseUrl);
    // Hosts' addresses are stored in plain text, so the search would find an address.
    expect(files.get("users")).toMatch(/user\d+@example\.com/);
    expect(files.get("forms_pkey")?.length).toBeGreaterThan(0);
    for (const [file, bytes] of files) expect([file, findSecrets(bytes, output.secrets)]).toEqual([file, []]);
  });

  test("are not in the logs of the gateway and the worker, even at LOG_LEVEL=trace", () => {
    expect(output.logs).toContain('"msg":"request"');
    expect(output.logs).toContain('"msg":"notification sent"');
    expect(findSecrets(output.logs, output.secrets)).toEqual([]);
  });

  test("are in no response, including error responses", () => {
    expect(output.responses).toContain("VALIDATION_ERROR");
    expect(findSecrets(output.responses, output.secrets)).toEqual([]);
  });
});

test.each([
  ["as it is", (secret: string) => `x ${secret} x`],
  ["in another case", (secret: string) => secret.toUpperCase()],
  ["in hex", (secret: string) => Buffer.from(`x${secret}x`).toString("hex")],
  ["URL-encoded", (secret: string) => encodeURIComponent(secret)],
  ["in base64", (secret: string) => Buffer.from(secret).toString("base64")],
  ["in base64 at offset 1", (secret: string) => Buffer.from(`x${secret}yz`).toString("base64")],
  ["in base64 at offset 2", (secret: string) => Buffer.from(`xy${secret}z`).toString("base64url")],
])("findSecrets finds a secret %s", (_, hide) => {
  expect(
    findSecrets(hide("Some.Guest@example.com"), { it: "Some.Guest@example.com", other: "another" }),
  ).toEqual(["it"]);
});
