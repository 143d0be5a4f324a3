import { type AbortSignalLike, type FetchResponse, runtime } from "./runtime.js";

/** The part of a web stream that the SDK uses. Bodies of other kinds, such as those of node-fetch, have no reader. */
interface ByteStream {
  getReader?(): { read(): Promise<{ value?: Uint8Array }>; cancel(): Promise<void> };
}

/**
 * Reads a body, at most `maxBytes` after decompression. A longer one is cut off, and its connection is closed. Without a
 * reader, the custom `fetch` limits what it reads.
 */
export async function readBody(response: FetchResponse, maxBytes: number, signal: AbortSignalLike) {
  const reader = (response.body as ByteStream | null | undefined)?.getReader?.();
  if (!reader) {
    const text = await response.text();
    return { text: text.slice(0, maxBytes), isWhole: text.length <= maxBytes };
  }
  // One buffer, because each chunk may be a single byte.
  let bytes = new Uint8Array(16_384);
  let length = 0;
  let isWhole = true;
  const cancel = () => void reader.cancel().catch(() => {});
  signal.addEventListener("abort", cancel);
  try {
    while (isWhole) {
      const { value } = await reader.read();
      if (!value) break;
      const part = value.subarray(0, maxBytes - length);
      isWhole = part.length === value.length;
      if (length + part.length > bytes.length) {
        const larger = new Uint8Array(Math.max(length + part.length, 2 * bytes.length));
        larger.set(bytes);
        bytes = larger;
      }
      bytes.set(part, length);
      length += part.length;
    }
  } finally {
    signal.removeEventListener("abort", cancel);
    cancel();
  }
  return { text: new runtime.TextDecoder().decode(bytes.subarray(0, length)), isWhole };
}
