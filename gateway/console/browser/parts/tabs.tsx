import { useLocation } from "preact-iso/router";
import { withQuery } from "./list.js";

interface TabsProps {
  /** Names the choice for screen readers. */
  label: string;
  /** Of the choice in the page's address. */
  name: string;
  of: readonly (readonly [value: string, text: string, count?: number | undefined])[];
}

/** The states of a list, as links. The first is the default, with an empty value. */
export function Tabs({ label, name, of }: TabsProps) {
  const { query } = useLocation();
  return (
    <nav class="tabs" aria-label={label}>
      {of.map(([value, text, count]) => (
        <a
          key={value}
          href={withQuery({ [name]: value, cursor: "" })}
          aria-current={value === (query[name] ?? "") ? "page" : undefined}
        >
          {text}
          {count !== undefined && <span>{count.toLocaleString()}</span>}
        </a>
      ))}
    </nav>
  );
}
