import { generateKeyPairSync, sign } from "node:crypto";

export interface CertificateWithKey {
  /** PEM. */
  key: string;
  cert: string;
}

const oid = (hex: string) => der(0x06, Buffer.from(hex, "hex"));
const COMMON_NAME = oid("550403");
const SUBJECT_ALT_NAME = oid("551d11");
const BASIC_CONSTRAINTS = oid("551d13");
const ECDSA_WITH_SHA256 = sequence(oid("2a8648ce3d040302"));
const DAY_MS = 86_400_000;

/** Creates a self-signed X.509 certificate (RFC 5280) for this host name, valid for a day. */
export function createSelfSignedCertificate(host: string): CertificateWithKey {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const name = sequence(der(0x31, sequence(COMMON_NAME, der(0x0c, Buffer.from(host)))));
  const body = sequence(
    der(0xa0, integer(2)),
    integer(1),
    ECDSA_WITH_SHA256,
    name,
    sequence(utcTime(Date.now() - DAY_MS), utcTime(Date.now() + DAY_MS)),
    name,
    publicKey.export({ type: "spki", format: "der" }),
    der(
      0xa3,
      sequence(
        sequence(BASIC_CONSTRAINTS, der(0x04, sequence(der(0x01, Buffer.of(0xff))))),
        sequence(SUBJECT_ALT_NAME, der(0x04, sequence(der(0x82, Buffer.from(host))))),
      ),
    ),
  );
  const signature = der(0x03, Buffer.of(0), sign("sha256", body, privateKey));
  return {
    key: privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
    cert: pem(sequence(body, ECDSA_WITH_SHA256, signature)),
  };
}

function der(tag: number, ...parts: Buffer[]): Buffer {
  const content = Buffer.concat(parts);
  const { length } = content;
  if (length < 0x80) return Buffer.concat([Buffer.of(tag, length), content]);
  return Buffer.concat([Buffer.of(tag, 0x82, length >> 8, length & 0xff), content]);
}

function sequence(...parts: Buffer[]): Buffer {
  return der(0x30, ...parts);
}

const integer = (value: number) => der(0x02, Buffer.of(value));

/** UTCTime: YYMMDDhhmmssZ. */
const utcTime = (atMs: number) =>
  der(0x17, Buffer.from(`${new Date(atMs).toISOString().slice(2, 19).replace(/\D/g, "")}Z`));

const pem = (certificate: Buffer) =>
  `-----BEGIN CERTIFICATE-----\n${certificate.toString("base64").replace(/.{64}/g, "$&\n")}\n-----END CERTIFICATE-----\n`;
