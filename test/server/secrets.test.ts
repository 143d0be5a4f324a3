import { createDecipheriv, hkdfSync } from "node:crypto";
import { describe, expect, test } from "vitest";
import { deriveKeyring, open, seal } from "../../server/encryption.js";
import { openTestCore } from "../support/core.js";
import { fixedStay } from "../support/stays.js";

const [FIRST, SECOND] = ["first-secret-of-at-least-32-characters", "second-secret-of-at-least-32-characters"];

describe("the keyring", () => {
  test("has one HKDF-SHA-256 key per secret and purpose, newest first", () => {
    const keyring = deriveKeyring([FIRST, SECOND]);
    for (const purpose of ["cursor", "fingerprint", "email", "erasure"] as const) {
      const derived = [FIRST, SECOND].map((secret) =>
        Buffer.from(hkdfSync("sha256", secret, "guest-forms", purpose, 32)),
      );
      expect(keyring[purpose].map((key) => key.export())).toEqual(derived);
    }
  });

  test("requires at least one secret", () => {
    expect(() => deriveKeyring([])).toThrow(/^APP_SECRETS is not set/);
  });
});

describe("a sealed address", () => {
  const { email } = deriveKeyring([FIRST]);
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
    const rotated = deriveKeyring([SECOND, FIRST]).email;
    expect(open(rotated, sealed, "form-1")).toBe("guest@example.com");
    const next = seal(rotated, "guest@example.com", "form-1");
    expect(open(deriveKeyring([SECOND]).email, next, "form-1")).toBe("guest@example.com");
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
    expect(() => open(services.keyring.email, copied, to.id)).toThrow("None of the");
    // It does not prevent updates, which keep it.
    await owner.forms.update({ id: to.id, ...fixedStay(owner.listingId) });
    expect(await stored()).toEqual(copied);
  });
});
