import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

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
    <>
      <div class="page-head">
        <h1 ref={heading} tabIndex={-1}>
          {title}
        </h1>
        {actions && <div class="actions">{actions}</div>}
      </div>
      {children}
    </>
  );
}

/** A part of a page with a title of its own. */
export const Section = ({ title, actions, children }: PageProps) => (
  <section class="card">
    <div class="section-head">
      <h2>{title}</h2>
      {actions && <div class="actions">{actions}</div>}
    </div>
    {children}
  </section>
);

/** Names and values. */
export const Facts = ({ of }: { of: [name: string, value: ComponentChildren][] }) => (
  <dl class="facts">
    {of.map(([name, value]) => (
      <div key={name}>
        <dt>{name}</dt>
        <dd>{value ?? <span class="quiet">–</span>}</dd>
      </div>
    ))}
  </dl>
);
