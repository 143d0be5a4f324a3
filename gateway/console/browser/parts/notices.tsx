import { type ComponentChildren, createContext } from "preact";
import { useCallback, useContext, useState } from "preact/hooks";
import { toFailure } from "../core.js";
import { Copy } from "./copy.js";

interface ProblemProps {
  error: unknown;
  /** Introduces it. */
  text?: string;
  retry?: () => void;
  close?: () => void;
}

/** What failed, with the correlation id for the logs. */
export function Problem({ error, text, retry, close }: ProblemProps) {
  const { message, correlationId, fields } = toFailure(error);
  const reason = fields.length > 0 ? fields.map(({ field, issue }) => `${field}: ${issue}`).join("; ") : message;
  return (
    <div class="alert alert-danger mb-0" role="alert">
      <p>
        {text} {reason}
      </p>
      {correlationId && (
        <p>
          Correlation id <Copy text={correlationId} />
        </p>
      )}
      {(retry ?? close) && (
        <button type="button" class="btn" onClick={retry ?? close}>
          {retry ? "Try again" : "Close"}
        </button>
      )}
    </div>
  );
}

interface Notice {
  id: number;
  text: string;
  error: unknown;
}

const Notify = createContext((_text: string, _error?: unknown) => {});

/** A function that tells the reader what was done or, with an error, what failed. */
export const useNotify = () => useContext(Notify);

const SHOWN_MS = 8_000;

/** Texts above the page, also after the button that was pressed is gone. */
export function Notices({ children }: { children: ComponentChildren }) {
  const [notices, setNotices] = useState<Notice[]>([]);
  const close = (closed: number) => setNotices((shown) => shown.filter(({ id }) => id !== closed));
  const notify = useCallback((text: string, error?: unknown) => {
    const id = Math.random();
    setNotices((shown) => [...shown, { id, text, error }]);
    if (!error) setTimeout(close, SHOWN_MS, id);
  }, []);
  return (
    <Notify.Provider value={notify}>
      {children}
      <div class="position-fixed bottom-0 end-0 z-3 p-3 col-md-5 vstack gap-2">
        {/* Exists before its texts, or screen readers do not read them. */}
        <div role="status">
          {notices.map(
            ({ id, text, error }) =>
              !error && (
                <p key={id} class="alert alert-success">
                  {text}
                </p>
              ),
          )}
        </div>
        {notices.map(
          ({ id, text, error }) => error && <Problem key={id} text={text} error={error} close={() => close(id)} />,
        )}
      </div>
    </Notify.Provider>
  );
}
