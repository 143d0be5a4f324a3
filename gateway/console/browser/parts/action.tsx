import { type Done, useChange } from "../queries.js";
import { Opener } from "./dialog.js";
import { Form, type FormProps } from "./form.js";

interface ActionProps<Result> extends Omit<FormProps<Result>, "submit"> {
  /** Text of the button. */
  label: string;
  of?: string;
  title?: string;
  class?: string;
  /** Text of the dialog's button. Default: label. */
  submit?: string;
}

/** A button that opens a form in a dialog, which closes once it is done. Without fields it is a confirmation. */
export const Action = <Result,>({ label, of, title, class: name, submit = label, ...form }: ActionProps<Result>) => (
  // The key, because Preact may take an action for its neighbor when some appear or go.
  <Opener key={label} label={label} of={of} title={title ?? label} class={name ?? ""}>
    {(close) => (
      <Form
        {...form}
        submit={submit}
        onDone={(result) => {
          close();
          form.onDone?.(result);
        }}
      />
    )}
  </Opener>
);

interface InstantProps<Result> {
  label: string;
  of?: string;
  class?: string;
  send: () => Promise<Result>;
  done: Done<Result>;
}

/** A button that does something at once, for what can be undone or repeated. */
export function Instant<Result>({ label, of, class: name = "", send, done }: InstantProps<Result>) {
  const change = useChange(send, done, `“${label}” failed.`);
  return (
    <button
      type="button"
      class={name}
      aria-label={of && `${label} ${of}`}
      disabled={change.isPending}
      onClick={() => change.isRunning() || change.mutate()}
    >
      {label}
    </button>
  );
}
