// Runs in the browser: checks how a page looks.

/** Visible texts and values of fields that do not fit into the window or into their field. */
globalThis.cutTexts = () => {
  const faults = [];
  for (const { element, node, text } of visibleTexts()) {
    if (element.closest(".table, .skip")) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    // Spaces at the end of a line take place, but are not seen.
    range.setEnd(node, node.data.trimEnd().length);
    const { left, right } = range.getBoundingClientRect();
    if (left < 0 || right > innerWidth) faults.push(`${left}..${right} ${element.tagName} "${text.slice(0, 40)}"`);
  }
  for (const input of document.querySelectorAll("input:not([type=password], [type=radio])")) {
    if (input.scrollWidth > input.clientWidth) faults.push(`field ${input.id}: ${input.value}`);
  }
  const overflow = document.documentElement.scrollWidth - innerWidth;
  if (overflow > 0) faults.push(`the page overflows by ${overflow} px`);
  return faults;
};

function visibleTexts() {
  const found = [];
  const nodes = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (nodes.nextNode()) {
    const node = nodes.currentNode;
    const element = node.parentElement;
    const text = node.data.trim();
    if (text !== "" && element.checkVisibility({ visibilityProperty: true })) found.push({ element, node, text });
  }
  return found;
}
