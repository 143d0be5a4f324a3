import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { type Done, useChange } from "../queries.js";
import { keepFocusNear } from "./focus.js";
import { type Field, Form, type FormProps, type Values } from "./form.js";

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
    // Close before unmount, so that the browser restores the focus.
    return () => {
      opened?.close();
      // The button that opened it may be gone, such as that of a revoked key.
      if (opened) keepFocusNear(opened);
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
      <div class="hstack flex-wrap gap-2 justify-content-between mb-3">
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

/** While disabled it keeps the focus. */
function Button({ isDisabled, ...props }: ButtonProps & { isDisabled?: boolean; onClick: () => void }) {
  const button = useRef<HTMLButtonElement>(null);
  useLayoutEffect(() => {
    const shown = button.current;
    return () => {
      if (shown && shown === document.activeElement) keepFocusNear(shown);
    };
  }, []);
  return (
    <button
      ref={button}
      type="button"
      class={`btn ${props.class ?? ""} ${isDisabled ? "disabled" : ""}`}
      aria-label={props.about && `${props.label} ${props.about}`}
      aria-disabled={isDisabled}
      onClick={() => isDisabled || props.onClick()}
    >
      {props.label}
    </button>
  );
}

interface FormButtonProps<Result> extends ButtonProps, Omit<FormProps<Result>, "submit"> {
  /** Title of the dialog. Default: label. */
  title?: string;
  /** Text of the dialog's button. Default: label. */
  submit?: string;
}

/** A button that opens a form in a dialog, which closes once it is done. Without fields it is a confirmation. */
export function FormButton<Result>({ title, submit, ...props }: FormButtonProps<Result>) {
  const [isOpen, setOpen] = useState(false);
  const onDone = (result: Result) => {
    setOpen(false);
    props.onDone?.(result);
  };
  return (
    <>
      <Button {...props} onClick={() => setOpen(true)} />
      {isOpen && (
        <Dialog title={title ?? props.label} onClose={() => setOpen(false)}>
          <Form {...props} submit={submit ?? props.label} onDone={onDone} />
        </Dialog>
      )}
    </>
  );
}

type EditButtonProps<Result> = { name: string; fields: readonly Field[]; send: (changes: Values) => Promise<Result> };

/** Sends only the values that were changed, so that another operator's changes of other fields stay. */
export function EditButton<Result>({ name, fields, send }: EditButtonProps<Result>) {
  const sendChanges = (values: Values, shown: readonly Field[]) => {
    const before = new Map(shown.map((field) => [field.name, field.value ?? null]));
    return send(Object.fromEntries(Object.entries(values).filter(([name, value]) => value !== before.get(name))));
  };
  return (
    <FormButton label="Edit" title={`Edit ${name}`} submit="Save" fields={fields} send={sendChanges} done="Saved." />
  );
}

/** A button that does something at once, for what can be undone or repeated. */
export function CallButton<Result>({
  send,
  done,
  ...props
}: ButtonProps & { send: () => Promise<Result>; done: Done<Result> }) {
  const change = useChange(send, { done, failed: `“${props.label}” failed:` });
  return <Button {...props} isDisabled={change.isPending} onClick={() => change.mutate()} />;
}
