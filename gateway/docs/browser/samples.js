// Example ids in the samples, which are replaced by real ones.
const EXAMPLE_IDS = {
  form: "8a0e2f3c-6a58-4d5c-9d3e-2f0a6f1c7b11",
  listing: "3f6b1c1e-2f53-4c0e-8f6a-51b6a3f0d7aa",
};

/** The unchanged texts of the samples. */
const originals = new Map();

/** Fills the address of this server and the given ids into every sample. */
export function fillSamples({ form = EXAMPLE_IDS.form, listing = EXAMPLE_IDS.listing }) {
  const { origin } = location;
  if (originals.size === 0) saveOriginals();
  for (const [text, original] of originals) {
    text.data = original
      .replaceAll("http://127.0.0.1:3000", origin)
      .replaceAll(EXAMPLE_IDS.form, form)
      .replaceAll(EXAMPLE_IDS.listing, listing);
    if (!text.parentElement.closest(".sample")) continue;
    text.data = text.data
      .replaceAll("process.env.GUEST_FORMS_BASE_URL", JSON.stringify(origin))
      .replaceAll("$GUEST_FORMS_BASE_URL", origin);
  }
}

/** Replaces the variable in Python and PHP, whose call around it is in the texts beside it. */
function fillAddress() {
  for (const code of document.querySelectorAll(".sample pre code")) {
    const texts = document.createTreeWalker(code, NodeFilter.SHOW_TEXT);
    for (let before; texts.nextNode(); before = texts.currentNode) {
      if (texts.currentNode.data !== '"GUEST_FORMS_BASE_URL"') continue;
      before.data = before.data.replace(/(os\.environ\[|getenv\()$/, "");
      texts.currentNode.data = JSON.stringify(location.origin);
      texts.nextNode();
      texts.currentNode.data = texts.currentNode.data.slice(1);
    }
  }
}

function saveOriginals() {
  fillAddress();
  for (const code of document.querySelectorAll(":not(.response) > pre code")) {
    const texts = document.createTreeWalker(code, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) originals.set(texts.currentNode, texts.currentNode.data);
  }
}
