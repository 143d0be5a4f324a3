import { z } from "zod";

// The kinds of values that settings have. `allowed` ends the error about a value that is not allowed; a `secret` value is not shown.

// Decimal digits only: Number() would also accept "0x10", "1e3", "1.0" and blanks.
export const integer = (min: number, max: number, defaultValue: number) =>
  z
    .string()
    .regex(/^\d+$/)
    .transform(Number)
    .pipe(z.number().min(min).max(max))
    .default(defaultValue)
    .meta({ allowed: `an integer from ${min} to ${max}` });

export const boolean = (defaultValue: boolean) =>
  z
    .enum(["true", "false"])
    .default(defaultValue ? "true" : "false")
    .transform((text) => text === "true")
    .meta({ allowed: "true or false" });

export const url = (schemes: string[]) =>
  z
    .string()
    .refine((text) => URL.canParse(text) && schemes.includes(new URL(text).protocol.slice(0, -1)))
    .meta({ allowed: `a URL such as ${schemes[0]}://…`, secret: true });

export const isHttpUrl = (text: string) => /^https?:\/\//i.test(text) && URL.canParse(text);

export const httpUrl = z.string().refine(isHttpUrl).meta({ allowed: "an http or https URL" });

export const shortText = (allowed: string) =>
  z
    .string()
    .trim()
    .regex(/^\P{Cc}{1,200}$/u)
    .meta({ allowed: `${allowed}, of at most 200 characters` });

export const host = z.string().min(1).default("127.0.0.1").meta({ allowed: "a host name or IP address" });

// As browsers send it: in ASCII, without a port.
export const HOST_NAME = /^(?=.{1,253}$)[a-z\d_-]+(?:\.[a-z\d_-]+)*$/;

export const isOrigin = (text: string) => URL.canParse(text) && new URL(text).origin === text;
