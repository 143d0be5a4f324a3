/** A JSON object of the document. */
export interface Json {
  [name: string]: unknown;
}
