import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

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
    opened?.querySelector<HTMLElement>("form :is(input, select), .primary:not(.danger)")?.focus();
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
      onCancel={(event) => {
        event.preventDefault();
        close();
      }}
      onKeyDown={(event) => {
        // Chromium closes at the second Escape even if `cancel` is prevented.
        if (event.key === "Escape" && !canClose()) event.preventDefault();
      }}
    >
      <div class="section-head">
        <h2>{title}</h2>
        {onClose && (
          <button type="button" class="small" onClick={close}>
            Close
          </button>
        )}
      </div>
      {children}
    </dialog>
  );
}

interface OpenerProps {
  /** Text of the button. */
  label: string;
  /** What it is about, for screen readers, if other buttons have the same text. */
  of?: string | undefined;
  title?: string;
  class?: string;
  children: (close: () => void) => ComponentChildren;
}

/** A button that opens a dialog. */
export function Opener({ label, of, title = label, class: name = "", children }: OpenerProps) {
  const [isOpen, setOpen] = useState(false);
  const close = () => setOpen(false);
  return (
    <>
      <button type="button" class={name} aria-label={of && `${label} ${of}`} onClick={() => setOpen(true)}>
        {label}
      </button>
      {isOpen && (
        <Dialog title={title} onClose={close}>
          {children(close)}
        </Dialog>
      )}
    </>
  );
}
