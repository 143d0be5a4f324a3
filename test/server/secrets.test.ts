import { createDecipheriv, hkdfSync } from "node:crypto";
import { describe, expect, test } from "vitest";
import { migrate } from "../../prisma/migrate.js";
import { readSettings } from "../../server/config.js";
import { deriveKeyring, open, seal } from "../../server/encryption.js";
import { registerMigratedSecrets } from "../../server/secrets/checks.js";
import { openServices } from "../../server/services.js";
import { openTestCore } from "../support/core.js";
import { createTestDatabase } from "../support/database.js";
import { openTestServices } from "../support/factories.js";
import { fixedStay } from "../support/stays.js";

const [OLD, NEW, OTHER] = ["old", "new", "other"].map((name) => `${name}-secret-of-at-least-32-characters`) as [
  string,
  string,
  string,
];

describe("the keyring", () => {
  test("has one HKDF-SHA-256 key per secret and purpose, newest first", () => {
    const keyring = deriveKeyring([OLD, NEW]);
    for (const purpose of ["cursor", "fingerprint", "email", "erasure"] as const) {
      const derived = [OLD, NEW].map((secret) => Buffer.from(hkdfSync("sha256", secret, "guest-forms", purpose, 32)));
      expect(keyring[purpose].map((key) => key.export())).toEqual(derived);
    }
  });

  test("requires at least one secret", () => {
    expect(() => deriveKeyring([])).toThrow(/^APP_SECRETS is not set/);
  });
});

describe("a sealed address", () => {
  const { email } = deriveKeyring([OLD]);
  const sealed = seal(email, "guest@example.com", "form-1");

  test("is AES-256-GCM bound to its form: version, 12-byte IV, 16-byte tag, ciphertext", () => {
    expect(sealed.readUInt8(0)).toBe(1);
    const decipher = createDecipheriv("aes-256-gcm", email[0], sealed.subarray(1, 13))
      .setAAD(Buffer.from("form-1"))
      .setAuthTag(sealed.subarray(13, 29));
    const text = Buffer.concat([decipher.update(sealed.subarray(29)), decipher.final()]);
    expect(text.toString()).toBe("guest@example.com");
  });

  test("cannot be decrypted if any byte of IV, tag or ciphertext is changed, or if it is truncated", () => {
    for (let index = 1; index < sealed.length; index++) {
      const altered = Buffer.from(sealed);
      altered.writeUInt8(altered.readUInt8(index) ^ 1, index);
      expect(() => open(email, altered, "form-1")).toThrow();
    }
    for (let length = 0; length < sealed.length; length++) {
      expect(() => open(email, sealed.subarray(0, length), "form-1")).toThrow();
    }
  });

  test("is encrypted with the newest secret and can be decrypted with any listed one", () => {
    const rotated = deriveKeyring([NEW, OLD]).email;
    expect(open(rotated, sealed, "form-1")).toBe("guest@example.com");
    const next = seal(rotated, "guest@example.com", "form-1");
    expect(open(deriveKeyring([NEW]).email, next, "form-1")).toBe("guest@example.com");
    expect(() => open(email, next, "form-1")).toThrow();
  });

  test("copied into another form's row cannot be decrypted there", async () => {
    const { services, owner, sql } = await openTestCore();
    const [from, to] = [await owner.addForm({ guestEmail: "guest@example.com" }), await owner.addForm()];
    const stored = async () => (await sql("SELECT guest_email FROM forms WHERE id = $1", to.id))[0].guest_email;
    await sql(
      "UPDATE forms SET guest_email = (SELECT guest_email FROM forms WHERE id = $1) WHERE id = $2",
      from.id,
      to.id,
    );
    const copied = await stored();
    expect(open(services.keyring.email, copied, from.id)).toBe("guest@example.com");
    expect(() => open(services.keyring.email, copied, to.id)).toThrow(
      "No secret in APP_SECRETS can decrypt this value: list the",
    );
    // It does not prevent updates, which keep it.
    await owner.forms.update({ id: to.id, ...fixedStay(owner.listingId) });
    expect(await stored()).toEqual(copied);
  });
});

const UNKNOWN = /^The first secret in APP_SECRETS is unknown to this database\. If it is mistyped, .* To rotate, /;
const DROPPED = /^APP_SECRETS lacks the secret that this database is used with\. /;

/** Starts a process with these APP_SECRETS. Returns the error message, or "started". */
async function start(databaseUrl: string, ...secrets: string[]): Promise<string> {
  const settings = readSettings({
    DATABASE_URL: databaseUrl,
    APP_SECRETS: secrets.join(","),
    DATABASE_CONNECT_TIMEOUT_MS: "10000",
    DATABASE_LOCK_TIMEOUT_MS: "10000",
    DATABASE_STATEMENT_TIMEOUT_MS: "10000",
  });
  try {
    const { close } = await openServices(settings, { warn: () => {} });
    await close();
    return "started";
  } catch (error) {
    const { name, message } = error as Error;
    expect(name).toBe("SecretsRejected");
    for (const secret of secrets) expect(message).not.toContain(secret);
    expect(message).not.toContain("\n");
    return message;
  }
}

describe("a process whose first secret is unknown to the database does not start", () => {
  test("if another process has used a secret before", async () => {
    const { url } = await createTestDatabase();
    expect(await start(url, OLD)).toBe("started");
    expect(await start(url, OLD)).toBe("started");
    expect(await start(url, OTHER)).toMatch(UNKNOWN);
    expect(await start(url, OTHER, OLD)).toMatch(UNKNOWN);
    expect(await start(url, OLD)).toBe("started");
  });

  test("if it tries to register its secret after the migrations, before `migrate` registers its own", async () => {
    const { url } = await createTestDatabase({ empty: true });
    let early: Promise<string> | undefined;
    await migrate(url, {
      finish: async (session) => {
        early = start(url, OTHER);
        const waiting = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
        await expect.poll(async () => (await session.query(waiting)).rows.length).toBe(1);
        await registerMigratedSecrets(session, [OLD]);
      },
    });
    expect(await early).toMatch(UNKNOWN);
    expect(await start(url, OLD)).toBe("started");
  });

  test("if ten start concurrently on a new database with different secrets: only one secret is accepted", async () => {
    const { url } = await createTestDatabase();
    const secrets = Array.from({ length: 10 }, (_, n) => `${n}`.repeat(32));
    const results = await Promise.all(secrets.map((secret) => start(url, secret)));
    expect(results.filter((result) => result === "started")).toHaveLength(1);
    const again = await Promise.all(secrets.map((secret) => start(url, secret)));
    expect(again).toEqual(results);
  });
});

describe("a rotation of APP_SECRETS", () => {
  test("has three steps: new secret second, new secret first, old secret removed; each starts, also next to the step before", async () => {
    const { url } = await createTestDatabase();
    const steps = [[OLD], [OLD, NEW], [NEW, OLD], [NEW]];
    for (const [index, step] of steps.entries()) {
      expect(await start(url, ...step)).toBe("started");
      // A process may restart with its old settings before it gets the new ones.
      if (index === 1 || index === 2) expect(await start(url, ...(steps[index - 1] ?? []))).toBe("started");
    }
    expect(await start(url, OLD), "once it is finished").toMatch(DROPPED);
  });

  test("is rejected if the old secret is removed before any process had the new one first", async () => {
    const { url } = await createTestDatabase();
    await start(url, OLD, NEW);
    expect(await start(url, NEW)).toMatch(DROPPED);
    expect(await start(url, NEW, OLD)).toBe("started");
    expect(await start(url, NEW)).toBe("started");
  });
});

test("secret_checks contains neither a secret nor a derived key of another purpose", async () => {
  const { db, keyring } = await openTestServices({ APP_SECRETS: `${OLD},${NEW}` });
  const { rows } = await db.pool.query("SELECT encode(value, 'hex') AS value FROM secret_checks");
  expect(rows).toHaveLength(2);
  const keys = [...keyring.cursor, ...keyring.fingerprint, ...keyring.email];
  const others = [Buffer.from(OLD), Buffer.from(NEW), ...keys.map((key) => key.export())].map((secret) =>
    secret.toString("hex"),
  );
  for (const { value } of rows) {
    expect(value).toMatch(/^[0-9a-f]{64}$/);
    expect(others).not.toContain(value);
  }
});
