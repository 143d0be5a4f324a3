import type { FieldError } from "../../server/errors.js";

/** An HTTP response as received. */
export interface HttpResponse {
  status: number;
  /** Names in lower case. The values of a repeated header are joined with a comma and a space. */
  headers: Record<string, string>;
  text: string;
  json: unknown;
}

export function parseJson(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return undefined;
  }
}

/** Returns the rejected fields of a VALIDATION_ERROR response, in order. */
export const errorFieldsOf = (response: HttpResponse): string[] =>
  ((response.json as { errors?: FieldError[] } | undefined)?.errors ?? []).map(({ field }) => field);

export const errorCodeOf = (response: Pick<HttpResponse, "json">): string | undefined =>
  (response.json as { code?: string } | undefined)?.code;
