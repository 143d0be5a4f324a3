import { useLocation } from "preact-iso/router";
import { withQuery } from "./list.js";

interface Tab {
  text: string;
  href: string;
  isOpen: boolean;
  count?: number | undefined;
}

interface TabsProps {
  /** Names the choice for screen readers. */
  label: string;
  tabs: Tab[];
}

/** Links of which one is open. */
export const Tabs = ({ label, tabs }: TabsProps) => (
  <nav class="nav nav-pills" aria-label={label}>
    {tabs.map(({ text, href, isOpen, count }) => (
      <a key={text} class={`nav-link ${isOpen ? "active" : ""}`} href={href} aria-current={isOpen ? "page" : undefined}>
        {text} {count?.toLocaleString()}
      </a>
    ))}
  </nav>
);

interface StateTabsProps {
  label: string;
  states: readonly string[];
  counts?: Partial<Record<string, number>> | undefined;
}

/** The states of a list, which are in the page's address. The first is the default. */
export function StateTabs({ label, states, counts }: StateTabsProps) {
  const { query } = useLocation();
  const tabOf = (state: string, index: number) => ({
    text: state.replaceAll("_", " "),
    href: withQuery({ state: index > 0 && state, cursor: null }),
    isOpen: state === (query.state ?? states[0]),
    count: counts?.[state],
  });
  return <Tabs label={label} tabs={states.map(tabOf)} />;
}
