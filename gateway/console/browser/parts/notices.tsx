import { type ComponentChildren, createContext } from "preact";
import { useCallback, useContext, useState } from "preact/hooks";
import { toFailure } from "../core.js";

interface Notice {
  id: number;
  text: string;
  isFailure: boolean;
}

const Notify = createContext((_text: string, _error?: unknown) => {});

/** A function that tells the reader what was done or, with an error, what failed. */
export const useNotify = () => useContext(Notify);

const SHOWN_MS = 8_000;
const FAILURE_SHOWN_MS = 60_000;

/** Texts above the page, also after the button that was pressed is gone. */
export function Notices({ children }: { children: ComponentChildren }) {
  const [notices, setNotices] = useState<Notice[]>([]);
  const close = (closed: number) => setNotices((shown) => shown.filter(({ id }) => id !== closed));
  const notify = useCallback((text: string, error?: unknown) => {
    const { message, fields, correlationId } = toFailure(error);
    const reasons = fields.length > 0 ? fields.map(({ issue }) => issue) : [message];
    if (error) text = [text, ...reasons, correlationId && `Correlation id: ${correlationId}`].filter(Boolean).join(" ");
    const id = Math.random();
    setNotices((shown) => [...shown, { id, text, isFailure: Boolean(error) }]);
    setTimeout(close, error ? FAILURE_SHOWN_MS : SHOWN_MS, id);
  }, []);
  const show = ({ id, text, isFailure }: Notice) => (
    <div
      key={id}
      role={isFailure ? "alert" : undefined}
      class={`alert alert-${isFailure ? "danger" : "success"} shadow`}
    >
      {text}
      <button type="button" class="btn btn-sm ms-2" onClick={() => close(id)}>
        Close
      </button>
    </div>
  );
  return (
    <Notify.Provider value={notify}>
      {children}
      <div class="position-fixed bottom-0 end-0 z-3 p-3 col-md-5">
        {/* Exists before its texts, or screen readers do not read them. An alert is read when it appears. */}
        <div role="status">{notices.filter(({ isFailure }) => !isFailure).map(show)}</div>
        {notices.filter(({ isFailure }) => isFailure).map(show)}
      </div>
    </Notify.Provider>
  );
}
