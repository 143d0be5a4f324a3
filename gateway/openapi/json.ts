/** A part of the document; JSON by nature. */
export interface Json {
  [name: string]: unknown;
}
