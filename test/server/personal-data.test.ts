import { describe, expect, test } from "vitest";
import { captureOutput, findSecrets, readAllRows, readDataFiles } from "../support/personal-data.js";

describe("API keys and guests' addresses", async () => {
  const { databaseUrl, logs, responses, secrets } = await captureOutput();

  test("are stored in no table, neither as text nor in hex or base64", async () => {
    const tables = await readAllRows(databaseUrl);
    const names = ["forms", "creations", "audit_entries", "notifications"];
    expect([...tables.keys()]).toEqual(expect.arrayContaining(names));
    // Proves that the search covers real rows: sealed bytes and an SMTP error.
    expect(tables.get("forms")).toContain("\\\\x01");
    expect(tables.get("notifications")).toMatch(/550 /);
    for (const [table, rows] of tables) expect([table, findSecrets(rows, secrets)]).toEqual([table, []]);
  });

  test("are in no file of a physical backup", async () => {
    const files = await readDataFiles(databaseUrl);
    // Hosts' addresses are stored in plain text, so the search would find an address.
    expect(files.get("users")).toMatch(/user\d+@example\.com/);
    expect(files.get("forms_pkey")?.length).toBeGreaterThan(0);
    for (const [file, bytes] of files) expect([file, findSecrets(bytes, secrets)]).toEqual([file, []]);
  });

  test("are not in the logs of the gateway and the worker, even at LOG_LEVEL=trace", () => {
    expect(logs).toContain('"msg":"request"');
    expect(logs).toContain('"msg":"notification sent"');
    expect(findSecrets(logs, secrets)).toEqual([]);
  });

  test("are in no response, including error responses", () => {
    expect(responses).toContain("VALIDATION_ERROR");
    expect(findSecrets(responses, secrets)).toEqual([]);
  });
});
