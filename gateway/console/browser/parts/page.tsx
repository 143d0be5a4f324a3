import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { Query } from "../queries.js";
import { Problem } from "./notices.js";

interface PageProps {
  title: string;
  /** Buttons beside the title. */
  actions?: ComponentChildren;
  children: ComponentChildren;
}

let isFirst = true;

/** A page with its title, which gets the focus when the page is opened by a link, so that a screen reader reads it. */
export function Page({ title, actions, children }: PageProps) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = `${title} · Guest forms console`;
  }, [title]);
  useEffect(() => {
    const { activeElement, body } = document;
    // The link that was pressed may be gone with its page. At first the focus is before the link that skips to the content.
    if (!isFirst && (activeElement === body || activeElement?.closest("nav, main a, search"))) heading.current?.focus();
    isFirst = false;
    scrollTo(0, 0);
  }, []);
  return (
    <div class="vstack gap-4">
      <div class="hstack flex-wrap gap-2 justify-content-between">
        <h1 ref={heading} tabIndex={-1} class="h3 mb-0">
          {title}
        </h1>
        <div class="hstack flex-wrap gap-2">{actions}</div>
      </div>
      {children}
    </div>
  );
}

/** A part of a page with a title of its own. */
export const Section = ({ title, actions, children }: PageProps) => (
  <section class="card card-body vstack gap-3">
    <div class="hstack flex-wrap gap-2 justify-content-between">
      <h2 tabIndex={-1} class="h6 fw-bold mb-0">
        {title}
      </h2>
      <div class="hstack flex-wrap gap-2">{actions}</div>
    </div>
    {children}
  </section>
);

/** Names and values. A value of null is shown as a dash. */
export const Facts = ({ facts }: { facts: Record<string, ComponentChildren> }) => (
  <dl class="row row-cols-2 row-cols-lg-3 g-3 mb-0">
    {Object.entries(facts).map(([name, value]) => (
      <div key={name}>
        <dt class="small fw-normal text-body-secondary">{name}</dt>
        <dd class="mb-0">{value ?? "–"}</dd>
      </div>
    ))}
  </dl>
);

const LOADING = (
  <p role="status" aria-busy="true">
    Loading …
  </p>
);

interface LoadedProps<Data> {
  query: Query<Data>;
  children: (data: Data) => ComponentChildren;
}

/** The data, or that they are being read, or why not. Data that could not be read again stay, with the reason above them. */
export function Loaded<Data>({ query, children }: LoadedProps<Data>) {
  const { data, error, refetch, isPlaceholderData } = query;
  const problem = error && <Problem error={error} retry={() => void refetch()} />;
  if (data === undefined) return problem ?? LOADING;
  return (
    <>
      {problem}
      <div class="vstack gap-4" aria-busy={isPlaceholderData}>
        {children(data)}
      </div>
    </>
  );
}
