import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { type Done, useChange } from "../queries.js";
import { Form, type FormProps } from "./form.js";

interface DialogProps {
  title: string;
  /** Absent: it cannot be closed. */
  onClose?: () => void;
  children: ComponentChildren;
}

/**
 * A modal dialog. The browser keeps the focus in it and returns it afterwards. Escape closes it, if it can be closed and no form in
 * it waits for its result, such as a key that is shown once.
 */
export function Dialog({ title, onClose, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const opened = dialog.current;
    opened?.showModal();
    // Not “Close”, except before something dangerous.
    opened?.querySelector<HTMLElement>("form :is(input, select), .btn-primary")?.focus();
    // Closed before it is removed, or the focus would not return.
    return () => {
      opened?.close();
      // The button that opened it may be gone, such as that of a revoked key.
      setTimeout(() => document.activeElement === document.body && document.getElementById("main")?.focus());
    };
  }, []);
  const canClose = () => onClose && !dialog.current?.querySelector("form[aria-busy=true]");
  const close = () => void (canClose() && onClose?.());
  return (
    <dialog
      ref={dialog}
      aria-label={title}
      class="bg-body text-body border rounded p-4"
      onCancel={(event) => {
        event.preventDefault();
        close();
      }}
      onKeyDown={(event) => {
        // Chromium closes at the second Escape even if `cancel` is prevented.
        if (event.key === "Escape" && !canClose()) event.preventDefault();
      }}
    >
      <div class="row-of-items justify-content-between mb-3">
        <h2 class="h5 mb-0">{title}</h2>
        {onClose && (
          <button type="button" class="btn btn-sm" onClick={close}>
            Close
          </button>
        )}
      </div>
      {children}
    </dialog>
  );
}

interface ButtonProps {
  /** Text of the button. */
  label: string;
  /** What it is about, for screen readers, if other buttons have the same text. */
  about?: string | undefined;
  class?: string;
}

interface FormButtonProps<Result> extends ButtonProps, Omit<FormProps<Result>, "submit"> {
  /** Title of the dialog. Default: label. */
  title?: string;
  /** Text of the dialog's button. Default: label. */
  submit?: string;
}

/** A button that opens a form in a dialog, which closes once it is done. Without fields it is a confirmation. */
export function FormButton<Result>({
  label,
  about,
  class: look = "",
  title = label,
  submit = label,
  ...form
}: FormButtonProps<Result>) {
  const [isOpen, setOpen] = useState(false);
  const onDone = (result: Result) => {
    setOpen(false);
    form.onDone?.(result);
  };
  return (
    <>
      <button
        type="button"
        class={`btn ${look}`}
        aria-label={about && `${label} ${about}`}
        onClick={() => setOpen(true)}
      >
        {label}
      </button>
      {isOpen && (
        <Dialog title={title} onClose={() => setOpen(false)}>
          <Form {...form} submit={submit} onDone={onDone} />
        </Dialog>
      )}
    </>
  );
}

interface CallButtonProps<Result> extends ButtonProps {
  send: () => Promise<Result>;
  done: Done<Result>;
}

/** A button that does something at once, for what can be undone or repeated. */
export function CallButton<Result>({ label, about, class: look = "", send, done }: CallButtonProps<Result>) {
  const change = useChange(send, done, `“${label}” failed.`);
  return (
    <button
      type="button"
      class={`btn ${look}`}
      aria-label={about && `${label} ${about}`}
      disabled={change.isPending}
      onClick={() => change.isRunning() || change.mutate()}
    >
      {label}
    </button>
  );
}
