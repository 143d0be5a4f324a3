import { createDecipheriv, hkdfSync } from "node:crypto";
import { describe, expect, test } from "vitest";
import { deriveKeyring, type Keyring, type Keys, loadKeyring, open, seal } from "../../server/secrets.js";
import { openTestServices } from "../support/factories.js";
import { makeListingOwner } from "../support/listing-owner.js";
import { fixedStay } from "../support/stays.js";

const [FIRST, SECOND] = ["first-secret-of-at-least-32-characters", "second-secret-of-at-least-32-characters"];

/** The bytes in hex: Vitest finds any two KeyObjects equal. */
const bytesOf = ({ cursor, fingerprint, email, erasure }: Keyring) => {
  const hex = (keys: Keys) => keys.map((key) => key.export().toString("hex"));
  return { cursor: hex(cursor), fingerprint: hex(fingerprint), email: hex(email), erasure: hex(erasure) };
};

describe("the keyring", () => {
  test("has one HKDF-SHA-256 key per secret and purpose, newest first", () => {
    const bytes = bytesOf(deriveKeyring([FIRST, SECOND]));
    for (const purpose of ["cursor", "fingerprint", "email", "erasure"] as const) {
      const derived = [FIRST, SECOND].map((secret) =>
        Buffer.from(hkdfSync("sha256", secret, "guest-forms", purpose, 32)).toString("hex"),
      );
      expect(bytes[purpose]).toEqual(derived);
    }
    expect(new Set(Object.values(bytes).flat()).size).toBe(8);
  });

  test("requires at least one secret", () => {
    expect(() => deriveKeyring([])).toThrow(/APP_SECRETS/);
  });

  test("has the configured secrets first, then the stored ones, newest first", async () => {
    const { db } = await openTestServices({ APP_SECRETS: "" });
    await db.prisma.storedSecret.create({ data: { secret: SECOND } });
    const stored = await db.prisma.storedSecret.findMany({ orderBy: { id: "asc" } });
    expect(stored).toHaveLength(2);
    const [oldest = { secret: "" }] = stored;
    expect(oldest.secret.length).toBeGreaterThanOrEqual(32);
    const [byDefault, configured] = [await loadKeyring([], db), await loadKeyring([FIRST], db)];
    expect(bytesOf(byDefault)).toEqual(bytesOf(deriveKeyring([SECOND, oldest.secret])));
    expect(bytesOf(configured)).toEqual(bytesOf(deriveKeyring([FIRST, SECOND, oldest.secret])));
  });
});

describe("a sealed address", () => {
  const { email } = deriveKeyring([FIRST]);
  const sealed = seal(email, "guest@example.com", "form-1");

  test("can be decrypted, and has a different ciphertext every time", () => {
    expect(open(email, sealed, "form-1")).toBe("guest@example.com");
    const again = seal(email, "guest@example.com", "form-1");
    expect(again.equals(sealed)).toBe(false);
    expect(open(email, new Uint8Array(again), "form-1")).toBe("guest@example.com");
    expect(open(email, seal(email, "ü€😀", "x"), "x")).toBe("ü€😀");
    expect(sealed.includes("guest")).toBe(false);
  });

  test("is AES-256-GCM bound to its form: version, 12-byte IV, 16-byte tag, ciphertext", () => {
    expect(sealed.readUInt8(0)).toBe(1);
    const decipher = createDecipheriv("aes-256-gcm", email[0], sealed.subarray(1, 13))
      .setAAD(Buffer.from("form-1"))
      .setAuthTag(sealed.subarray(13, 29));
    const text = Buffer.concat([decipher.update(sealed.subarray(29)), decipher.final()]);
    expect(text.toString()).toBe("guest@example.com");
  });

  test("cannot be decrypted for another form or with another secret", () => {
    expect(() => open(email, sealed, "form-2")).toThrow();
    expect(() => open(deriveKeyring([SECOND]).email, sealed, "form-1")).toThrow();
    expect(() => open(deriveKeyring([FIRST]).fingerprint, sealed, "form-1")).toThrow();
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
    const rotated = deriveKeyring([SECOND, FIRST]).email;
    expect(open(rotated, sealed, "form-1")).toBe("guest@example.com");
    const next = seal(rotated, "guest@example.com", "form-1");
    expect(open(deriveKeyring([SECOND]).email, next, "form-1")).toBe("guest@example.com");
    expect(() => open(email, next, "form-1")).toThrow();
  });

  test("copied into another form's row cannot be decrypted there", async () => {
    const services = await openTestServices();
    const { forms, ...owner } = await makeListingOwner(services);
    const [from, to] = [await owner.addForm({ guestEmail: "guest@example.com" }), await owner.addForm()];
    await services.db.pool.query(
      "UPDATE forms SET guest_email = (SELECT guest_email FROM forms WHERE id = $1) WHERE id = $2",
      [from.id, to.id],
    );
    const { rows } = await services.db.pool.query("SELECT guest_email FROM forms WHERE id = $1", [to.id]);
    expect(open(services.keyring.email, rows[0].guest_email, from.id)).toBe("guest@example.com");
    expect(() => open(services.keyring.email, rows[0].guest_email, to.id)).toThrow("None of the");
    // It does not prevent updates either.
    await forms.update({ id: to.id, ...fixedStay(owner.listingId) });
  });
});
