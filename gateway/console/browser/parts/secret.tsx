import { useState } from "preact/hooks";
import { copyText } from "./copy.js";
import { Dialog } from "./dialog.js";

interface Secret {
  title: string;
  secret: string;
  /** What the reader has to know about it. */
  note: string;
}

/** A dialog with a key or secret, which closes only if the reader has copied it or says so. */
export function useSecret() {
  const [shown, show] = useState<Secret>();
  return { show, dialog: shown && <SecretDialog {...shown} onClose={() => show(undefined)} /> };
}

function SecretDialog({ title, secret, note, onClose }: Secret & { onClose: () => void }) {
  const [state, setState] = useState<"" | "copied" | "failed">("");
  const copy = async () => setState((await copyText(secret)) ? "copied" : "failed");
  return (
    <Dialog title={title} {...(state === "copied" && { onClose })}>
      <div class="fields">
        <p>
          <strong>Copy it now: it is never shown again.</strong> {note}
        </p>
        <code class="secret">{secret}</code>
        <p role="status" class={state === "failed" ? "issue" : "quiet"}>
          {state === "" && "\u00a0"}
          {state === "copied" && "Copied."}
          {state === "failed" && "The browser did not copy it: select the text and copy it."}
        </p>
        <div class="actions">
          <button type="button" class="primary" onClick={() => void copy()}>
            Copy
          </button>
          <button type="button" onClick={onClose}>
            {state === "copied" ? "Done" : "I have saved it"}
          </button>
        </div>
      </div>
    </Dialog>
  );
}
