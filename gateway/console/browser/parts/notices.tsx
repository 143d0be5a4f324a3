import { type ComponentChildren, createContext } from "preact";
import { useContext, useMemo, useState } from "preact/hooks";
import { toFailure } from "../core.js";

interface Notice {
  id: number;
  role: "status" | "alert";
  text: string;
}

const Notify = createContext({ notify: (_text: string) => {}, notifyFailure: (_text: string, _error: unknown) => {} });

/** Functions that tell the reader what was done, or what failed. */
export const useNotify = () => useContext(Notify);

const SHOWN_MS = { status: 8_000, alert: 60_000 };

/** Texts above the page, also after the button that was pressed is gone. */
export function Notices({ children }: { children: ComponentChildren }) {
  const [notices, setNotices] = useState<Notice[]>([]);
  const close = (closed: number) => setNotices((shown) => shown.filter(({ id }) => id !== closed));
  const functions = useMemo(() => {
    const show = (role: Notice["role"], text: string) => {
      const id = Date.now() + Math.random();
      setNotices((shown) => [...shown, { id, role, text }]);
      setTimeout(close, SHOWN_MS[role], id);
    };
    return {
      notify: (text: string) => show("status", text),
      notifyFailure(text: string, error: unknown) {
        const { message, fields, correlationId } = toFailure(error);
        const reasons = fields.length > 0 ? fields.map(({ issue }) => issue) : [message];
        show(
          "alert",
          [text, ...reasons, correlationId && `Correlation id: ${correlationId}`].filter(Boolean).join(" "),
        );
      },
    };
  }, []);
  return (
    <Notify.Provider value={functions}>
      {children}
      <div class="notices">
        {/* Exists before its texts, or screen readers do not read them. An alert is read when it appears. */}
        <div role="status">{notices.map(({ id, role, text }) => role === "status" && <p key={id}>{text}</p>)}</div>
        {notices.map(
          ({ id, role, text }) =>
            role === "alert" && (
              <p key={id} role="alert">
                {text}{" "}
                <button type="button" class="small" onClick={() => close(id)}>
                  Close
                </button>
              </p>
            ),
        )}
      </div>
    </Notify.Provider>
  );
}
