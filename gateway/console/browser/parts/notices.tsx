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
        {/* Exist before their texts, or screen readers do not read them. */}
        {(["status", "alert"] as const).map((each) => (
          <div key={each} role={each}>
            {notices
              .filter(({ role }) => role === each)
              .map(({ id, text }) => (
                <p key={id}>
                  {text}{" "}
                  {each === "alert" && (
                    <button type="button" class="small" onClick={() => close(id)}>
                      Close
                    </button>
                  )}
                </p>
              ))}
          </div>
        ))}
      </div>
    </Notify.Provider>
  );
}
