import { useState } from "preact/hooks";

const SHOWN_MS = 2_000;

/** Whether the text was copied. Over http, browsers copy only on localhost. */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

/** A text with a button that copies it. */
export function Copy({ text, shown = text, label = "Copy" }: { text: string; shown?: string; label?: string }) {
  const [state, setState] = useState("");
  const copy = async () => {
    setState((await copyText(text)) ? "Copied" : "Not copied: select the text");
    setTimeout(() => setState(""), SHOWN_MS);
  };
  return (
    <span class="copy">
      <code title={text}>{shown}</code>
      <button type="button" class="small" aria-label={`${label} ${shown}`} onClick={() => void copy()}>
        {state || label}
      </button>
    </span>
  );
}
