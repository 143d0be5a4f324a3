import { expect, test } from "vitest";
import { deriveKey, deriveKeyring, open } from "../../server/encryption.js";
import { hashAddress, isAddressHash, isMadeWith } from "../../server/erasure/address-hash.js";
import { hashKey, isWellFormed } from "../../server/keys/authenticator.js";
import { decodeCursor, encodeCursor, type ListIdentity } from "../../server/resources/paging.js";

// Values that clients and databases hold. If one of these tests fails, values returned or stored by earlier versions no
// longer work. Do not change the literal: support the old format in addition to the new one.

const [NEW_SECRET, OLD_SECRET] = [
  "golden-secret-one-of-32-characters-and-more",
  "golden-secret-two-of-32-characters-and-more",
];
const keyring = deriveKeyring([NEW_SECRET, OLD_SECRET]);
const FORM_ID = "0b6f1c52-7c1e-4a39-9d55-3f8f6a7b1c2d";
const LISTING_ID = "5d1c9a3e-2b47-4f60-8a91-c0ffee123456";

test("the secret_checks value of a secret never changes", () => {
  expect(deriveKey(NEW_SECRET, "check").export().toString("hex")).toBe(
    "05b642db15abc67cc0a9fea5d72db9a3439635a23f97fe53cc56e6472eb869d1",
  );
});

const position = { createdAt: Date.parse("2026-11-21T10:15:30.123Z"), id: FORM_ID };
const first = { createdAt: 0, id: "00000000-0000-0000-0000-000000000000" };
const last = { createdAt: Date.parse("9999-12-31T23:59:59.999Z"), id: "ffffffff-ffff-ffff-ffff-ffffffffffff" };
test.each<[ListIdentity, typeof position, string]>([
  [{ list: "forms" }, position, "AQAAAaH9mppLC28cUnweSjmdVT-PanscLb6LholWhx4vU_eTRoo8SQw"],
  [{ list: "forms", listingId: LISTING_ID }, position, "AQAAAaH9mppLC28cUnweSjmdVT-PanscLTzvoiJg6JPj42MGHvA5Xms"],
  [{ list: "listings" }, position, "AQAAAaH9mppLC28cUnweSjmdVT-PanscLW4ixmCWOYuWMiOPTrXhM8w"],
  [{ list: "forms" }, first, "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAG3mYZwZs1ZrJFYpgJW8f-g"],
  [{ list: "forms" }, last, "AQAA5nfSH9v______________________0BGX5prWmcJEsL6VsASne8"],
])(
  "a cursor returned by an earlier version of %j at %j decodes to its position, and encodes back",
  (identity, at, cursor) => {
    expect(decodeCursor(keyring.cursor, identity, cursor)).toEqual(at);
    expect(encodeCursor(keyring.cursor, identity, at)).toBe(cursor);
  },
);

test.each([
  ["guest@example.com", "AdSqbO3L95C579dAsYhsFnIUP2hS+LR/g89lVSbv3EwZ975J/SrPj50eBpGjFg=="],
  ["gäst+ü@bücher.example", "AZ8wQjgaIeDnultUkUPs3i5n+pMALI6ea6giOWTj/L6MyAJQZZQT6TIxEbRBsZzgq5j/zC0="],
])(
  "a guest's address sealed by an earlier version is decrypted for its form, and for no other: %s",
  (address, sealed) => {
    expect(open(keyring.email, Buffer.from(sealed, "base64"), FORM_ID)).toBe(address);
    expect(() => open(keyring.email, Buffer.from(sealed, "base64"), LISTING_ID)).toThrow();
  },
);

test("an API key issued by an earlier version has the same checksum and stored hash", () => {
  const stored = {
    grf_rw_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefg1NmLJU:
      "5d4e5e7ec33656e02c1624eb2d0b758dbde01d37625ba71e5483bc1ee1749db2",
    grf_rw_000000000000000000000000000000000000000000300KYeT:
      "1b8723346621c507f91269ddef3c324c3deb82df0cb65d2e27a8203b22b14264",
  };
  for (const [key, hash] of Object.entries(stored)) {
    expect([isWellFormed(key), hashKey(key).toString("hex")]).toEqual([true, hash]);
  }
});

const [newKey, oldKey] = keyring.erasure;
test.each([
  [newKey, "guest@example.com", "AUtgOYu6AYYkSoT4PQvXQbT9_QnTLstG-QgI3UtykXSDPlFcEYixGzo"],
  [newKey, "Gäst+Ü@bücher.example", "AUtgOYu6AYYkgowx8l1b9r-y4NFNJBfZwiFAJ7BGJzBqWdQXELlRfiU"],
  [oldKey, "guest@example.com", "AeLmvNAWXeOiuXaaqJbCnvAIIlswRo92IBWevw5-9wHtmJg8JWGW9yI"],
])(
  "the record of an erasure by an earlier version has the same hash of the address, and names its secret",
  (key, address, hash) => {
    expect(isAddressHash(hash)).toBe(true);
    expect(key && hashAddress(key, address)).toBe(hash);
    expect(keyring.erasure.filter((each) => isMadeWith(each, hash))).toEqual([key]);
  },
);
