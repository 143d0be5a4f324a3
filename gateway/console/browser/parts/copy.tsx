import { useState } from "preact/hooks";

const SHOWN_MS = 2_000;

/** A text with a button that copies it. Over http, browsers copy only on localhost. */
export function Copy({ text }: { text: string }) {
  const [state, setState] = useState("");
  const copy = async () => {
    const copied = navigator.clipboard?.writeText(text) ?? Promise.reject();
    setState(
      await copied.then(
        () => "Copied",
        () => "Not copied: select the text",
      ),
    );
    setTimeout(() => setState(""), SHOWN_MS);
  };
  return (
    <span class="hstack flex-wrap gap-2 d-inline-flex mw-100">
      <code class="user-select-all">{text}</code>
      <button type="button" class="btn btn-sm" onClick={() => void copy()}>
        Copy
      </button>
      <span role="status">{state}</span>
    </span>
  );
}
