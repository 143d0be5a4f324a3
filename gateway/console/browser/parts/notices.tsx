import { type ComponentChildren, createContext } from "preact";
import { useCallback, useContext, useState } from "preact/hooks";

const Notify = createContext<(text: string) => void>(() => {});

/** Returns a function that tells the reader what was done. */
export const useNotify = () => useContext(Notify);

const SHOWN_MS = 8_000;

export function Notices({ children }: { children: ComponentChildren }) {
  const [texts, setTexts] = useState<{ id: number; text: string }[]>([]);
  const notify = useCallback((text: string) => {
    const id = Date.now() + Math.random();
    setTexts((shown) => [...shown, { id, text }]);
    setTimeout(() => setTexts((shown) => shown.filter((one) => one.id !== id)), SHOWN_MS);
  }, []);
  return (
    <Notify.Provider value={notify}>
      {children}
      {/* Exists before its texts, or screen readers do not read them. */}
      <div class="notices" role="status">
        {texts.map(({ id, text }) => (
          <p key={id}>{text}</p>
        ))}
      </div>
    </Notify.Provider>
  );
}
