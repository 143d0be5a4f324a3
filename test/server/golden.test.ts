import { describe, expect, test } from "vitest";
import { hashKey, isWellFormed } from "../../server/keys/authenticator.js";
import { decodeCursor, encodeCursor, type ListIdentity } from "../../server/paging.js";
import { hashAddress, isAddressHash, isMadeWith } from "../../server/people/address-hash.js";
import { deriveKey, deriveKeyring, open } from "../../server/secrets.js";

// Values that clients and databases hold. If one of these tests fails, values returned or stored by earlier versions no
// longer work. Do not change the literal: support the old format in addition to the new one.

const [NEW_SECRET, OLD_SECRET] = [
  "golden-secret-one-of-32-characters-and-more",
  "golden-secret-two-of-32-characters-and-more",
];
const keyring = deriveKeyring([NEW_SECRET, OLD_SECRET]);
const FORM_ID = "0b6f1c52-7c1e-4a39-9d55-3f8f6a7b1c2d";
const LISTING_ID = "5d1c9a3e-2b47-4f60-8a91-c0ffee123456";

describe("keys derived from APP_SECRETS", () => {
  test.each([
    [
      "cursor",
      "419dfa12d1eb0c7522cf9eeede76a80d1e49f26f600a47200b2f8774aa501699",
      "61f76b7894d9996c58f3d00b544caf36e97625d0de269d00fd50ca455a83dd73",
    ],
    [
      "fingerprint",
      "e8176b4b323546418bd9bdf6c78ecefe454500ef457a8a030025185b7417e589",
      "4755c4b6c6a2e7f90622c3fb8fa1506f65ea77510f0d547e14f5687ada5a5419",
    ],
    [
      "email",
      "bc6bd09106c41dcea8feabb2d696d5df534af148e2bd864526c66d776cb5becc",
      "8d3db50d4b2143f944de747d52bd17bea2cd556d7cf860f4ec980cf46724480f",
    ],
    [
      "erasure",
      "e7d4be01e43e2d0d24370aa12613df91c36cdf78c4978d9e45ed1f636d7bac1d",
      "6b3d775c0d7bca51e29a279b955b13616fce3cb47bb482a84180f0992f846d76",
    ],
  ] as const)("the %s keys never change", (purpose, ...expected) => {
    expect(keyring[purpose].map((key) => key.export().toString("hex"))).toEqual(expected);
  });
});

test("the secret_checks value of a secret never changes", () => {
  expect(deriveKey(NEW_SECRET, "check").export().toString("hex")).toBe(
    "05b642db15abc67cc0a9fea5d72db9a3439635a23f97fe53cc56e6472eb869d1",
  );
});

describe("a cursor returned by an earlier version", () => {
  const position = { createdAt: Date.parse("2026-11-21T10:15:30.123Z"), id: FORM_ID };
  const first = { createdAt: 0, id: "00000000-0000-0000-0000-000000000000" };
  const last = {
    createdAt: Date.parse("9999-12-31T23:59:59.999Z"),
    id: "ffffffff-ffff-ffff-ffff-ffffffffffff",
  };
  const forms: ListIdentity = { list: "forms" };
  const onListing: ListIdentity = { list: "forms", listingId: LISTING_ID };
  const listings: ListIdentity = { list: "listings" };
  const cases = [
    { identity: forms, position, cursor: "AQAAAaH9mppLC28cUnweSjmdVT-PanscLb6LholWhx4vU_eTRoo8SQw" },
    { identity: onListing, position, cursor: "AQAAAaH9mppLC28cUnweSjmdVT-PanscLTzvoiJg6JPj42MGHvA5Xms" },
    { identity: listings, position, cursor: "AQAAAaH9mppLC28cUnweSjmdVT-PanscLW4ixmCWOYuWMiOPTrXhM8w" },
    {
      identity: forms,
      position: first,
      cursor: "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAG3mYZwZs1ZrJFYpgJW8f-g",
    },
    {
      identity: forms,
      position: last,
      cursor: "AQAA5nfSH9v______________________0BGX5prWmcJEsL6VsASne8",
    },
  ];

  test.each(cases)("decodes to its position, and encodes back: $cursor", ({ identity, position, cursor }) => {
    expect(decodeCursor(keyring.cursor, identity, cursor)).toEqual(position);
    expect(encodeCursor(keyring.cursor, identity, position)).toBe(cursor);
  });

  test("is accepted while its secret is still listed", () => {
    const cursor = "AQAAAaH9mppLC28cUnweSjmdVT-PanscLeGhgVQqGy3UQUY_uYed8qw";
    expect(decodeCursor(keyring.cursor, onListing, cursor)).toEqual(position);
    expect(() => decodeCursor(deriveKeyring([NEW_SECRET]).cursor, onListing, cursor)).toThrow();
  });
});

describe("a guest's address sealed by an earlier version", () => {
  test.each([
    ["guest@example.com", "AdSqbO3L95C579dAsYhsFnIUP2hS+LR/g89lVSbv3EwZ975J/SrPj50eBpGjFg=="],
    ["gäst+ü@bücher.example", "AZ8wQjgaIeDnultUkUPs3i5n+pMALI6ea6giOWTj/L6MyAJQZZQT6TIxEbRBsZzgq5j/zC0="],
  ])("is decrypted for its form, and for no other: %s", (address, sealed) => {
    expect(open(keyring.email, Buffer.from(sealed, "base64"), FORM_ID)).toBe(address);
    expect(() => open(keyring.email, Buffer.from(sealed, "base64"), LISTING_ID)).toThrow();
  });

  test("is decrypted while its secret is still listed", () => {
    const sealed = Buffer.from("Afklh+UbJqVCkPgpuPCONLLRjqiJDfISd+tiGxFcRbfV3oTpbOXhzoOYfs0I3A==", "base64");
    expect(open(keyring.email, sealed, FORM_ID)).toBe("guest@example.com");
    expect(() => open(deriveKeyring([NEW_SECRET]).email, sealed, FORM_ID)).toThrow();
  });
});

describe("an API key issued by an earlier version", () => {
  test.each([
    [
      "grf_rw_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefg1NmLJU",
      "5d4e5e7ec33656e02c1624eb2d0b758dbde01d37625ba71e5483bc1ee1749db2",
    ],
    [
      "grf_rw_JKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz1nwQrR",
      "bf47ed8a25d848c3246b04ff62b70f3d8feebd68c5662bfd2807b108bf8857cd",
    ],
    [
      "grf_ro_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefg21dFI5",
      "a1baa152acb65fb5a3dd558306c193479ff3ae11ab2ce5fabcbcf2a44dd0c2f2",
    ],
    [
      "grf_ro_JKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz1JSBTk",
      "1dc2cf4990d7aeb549eb2bcef0b8d942ae157c219bbfbb5f69bbe2f8ea5cd105",
    ],
  ])("has the same checksum and stored hash: %s", (key, stored) => {
    expect(isWellFormed(key)).toBe(true);
    expect(hashKey(key).toString("hex")).toBe(stored);
  });
});

describe("the record of an erasure by an earlier version", () => {
  const [newKey, oldKey] = keyring.erasure;
  test.each([
    [newKey, "guest@example.com", "AUtgOYu6AYYkSoT4PQvXQbT9_QnTLstG-QgI3UtykXSDPlFcEYixGzo"],
    [newKey, "Gäst+Ü@bücher.example", "AUtgOYu6AYYkgowx8l1b9r-y4NFNJBfZwiFAJ7BGJzBqWdQXELlRfiU"],
    [oldKey, "guest@example.com", "AeLmvNAWXeOiuXaaqJbCnvAIIlswRo92IBWevw5-9wHtmJg8JWGW9yI"],
  ])("has the same hash of the address, and names its secret", (key, address, hash) => {
    expect(isAddressHash(hash)).toBe(true);
    expect(key && hashAddress(key, address)).toBe(hash);
    expect(keyring.erasure.filter((each) => isMadeWith(each, hash))).toEqual([key]);
  });
});
