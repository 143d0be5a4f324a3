import { useLocation } from "preact-iso/router";
import { withQuery } from "./list.js";

/** One of several links, of which one is open. */
export const Tab = ({ href, isOpen, text }: { href: string; isOpen: boolean; text: string }) => (
  <a class={`nav-link ${isOpen ? "active" : ""}`} href={href} aria-current={isOpen ? "page" : undefined}>
    {text}
  </a>
);

interface StateTabsProps {
  label: string;
  states: readonly string[];
  counts?: Partial<Record<string, number>> | undefined;
}

/** The states of a list, which are in the page's address. The first is the default. */
export function StateTabs({ label, states, counts }: StateTabsProps) {
  const { query } = useLocation();
  return (
    <nav class="nav nav-pills" aria-label={label}>
      {states.map((state, index) => (
        <Tab
          key={state}
          href={withQuery({ state: index > 0 && state, cursor: null })}
          isOpen={state === (query.state ?? states[0])}
          text={`${state.replaceAll("_", " ")} ${counts?.[state]?.toLocaleString() ?? ""}`}
        />
      ))}
    </nav>
  );
}
