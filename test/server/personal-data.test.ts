import { describe, expect, test } from "vitest";
import { captureOutput, findSecrets, readAllRows, readDataFiles } from "../support/personal-data.js";

describe("API keys and guests' addresses", async () => {
  const { databaseUrl, logs, logLines, responses, secrets, host } = await captureOutput();

  test("are stored in no table, neither as text nor in hex or base64", async () => {
    const tables = await readAllRows(databaseUrl);
    const names = ["forms", "creations", "audit_entries", "emails"];
    expect([...tables.keys()]).toEqual(expect.arrayContaining(names));
    // Proves that the search covers real rows: sealed bytes and an SMTP error.
    expect(tables.get("forms")).toContain("\\\\x01");
    expect(tables.get("emails")).toMatch(/550 /);
    for (const [table, rows] of tables) expect([table, findSecrets(rows, secrets)]).toEqual([table, []]);
  });

  test("are in no file of a physical backup", async () => {
    const files = await readDataFiles(databaseUrl);
    // Hosts' addresses are stored in plain text, so the search would find an address.
    expect(files.get("users")).toMatch(/user\d+@example\.com/);
    expect(files.get("forms_pkey")?.length).toBeGreaterThan(0);
    for (const [file, bytes] of files) expect([file, findSecrets(bytes, secrets)]).toEqual([file, []]);
  });

  test("every log line of the service is JSON without a key, token or email address in any encoding, even at LOG_LEVEL=trace", () => {
    for (const line of logLines) expect(JSON.parse(line)).toHaveProperty("msg");
    expect(logs).toContain('"msg":"request"');
    expect(logs).toContain('"msg":"email sent"');
    // The masked forms of an address and of what an error of Postgres quotes.
    expect(logs).toContain("O***@f***.com");
    expect(logs).toMatch(/"err":.*no \[email\] and no grf_rw_…/);
    expect(findSecrets(logs, { ...secrets, ...host })).toEqual([]);
  });

  test("are in no response, including error responses", () => {
    expect(responses).toContain("VALIDATION_ERROR");
    expect(findSecrets(responses, secrets)).toEqual([]);
  });
});
