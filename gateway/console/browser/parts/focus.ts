const isLost = () => document.activeElement === document.body;

/**
 * To be called before the page removes an element that has the focus, such as the button of a row that was dealt with. Afterwards
 * the focus is on a button beside it, in the rows below or above it, or on the title of its list, section or page.
 */
export function keepFocusNear(element: Element): void {
  const row = element.closest("tr");
  const rows = [...(row?.parentElement?.children ?? [])];
  const at = row ? rows.indexOf(row) : 0;
  const withButtons = [element.parentElement, row, ...rows.slice(at + 1), ...rows.slice(0, at).reverse()];
  const list = element.closest<HTMLElement>("section[tabindex]");
  const [section, page] = [element.closest<HTMLElement>("section:not([tabindex])"), element.closest("main")];
  queueMicrotask(() => {
    if (!isLost()) return;
    const buttons = withButtons.map((place) =>
      place?.isConnected ? place.querySelector<HTMLElement>("button:not(dialog *)") : undefined,
    );
    const titles = [
      list,
      section?.querySelector<HTMLElement>("h2"),
      page?.querySelector<HTMLElement>("h1"),
      document.getElementById("main"),
    ];
    for (const target of [...buttons, ...titles]) {
      if (isLost() && target?.isConnected) target.focus();
    }
  });
}
