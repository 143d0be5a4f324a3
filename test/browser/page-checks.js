// Runs in the browser: checks how a page looks.

/** Visible texts and placeholders whose contrast to their background is below 4.5. */
globalThis.lowContrast = () => {
  const faults = [];
  const judge = (element, color, text) => {
    const background = backgroundOf(element);
    const ratio = contrast(blend(parse(color), background), background);
    if (ratio < 4.5) faults.push(`${ratio.toFixed(2)} ${element.tagName}.${element.className} "${text.slice(0, 40)}"`);
  };
  for (const { element, text } of visibleTexts()) judge(element, getComputedStyle(element).color, text);
  for (const input of document.querySelectorAll("input[placeholder]")) {
    judge(input, getComputedStyle(input, "::placeholder").color, input.placeholder);
  }
  return faults;
};

/** Visible texts and values of fields that do not fit into the window or into their field. */
globalThis.cutTexts = () => {
  const faults = [];
  for (const { element, node, text } of visibleTexts()) {
    // The wrapper of a table scrolls. Skip links and texts for screen readers are out of sight.
    if (element.closest(".table:not(table), .skip, [class*=visually-hidden]")) continue;
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

function backgroundOf(element) {
  for (let at = element; at; at = at.parentElement) {
    const color = parse(getComputedStyle(at).backgroundColor);
    if (color.alpha === 1) return color;
    if (color.alpha > 0) throw new Error(`${at.tagName}.${at.className} has a translucent background`);
  }
  throw new Error("the page has no background");
}

function parse(color) {
  const [, red, green, blue, alpha = 1] = /^rgba?\((\d+), (\d+), (\d+)(?:, ([\d.]+))?\)$/.exec(color);
  return { channels: [red, green, blue].map(Number), alpha: Number(alpha) };
}

/** What a translucent color looks like on an opaque one. */
function blend({ channels, alpha }, background) {
  return { channels: channels.map((value, index) => value * alpha + background.channels[index] * (1 - alpha)) };
}

/** WCAG 2.2, contrast ratio. */
function contrast(one, other) {
  const [dark, light] = [one, other].map(luminance).sort((a, b) => a - b);
  return (light + 0.05) / (dark + 0.05);
}

function luminance({ channels }) {
  const [red, green, blue] = channels.map((channel) => {
    const value = channel / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}
