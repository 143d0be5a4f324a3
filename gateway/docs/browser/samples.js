// The samples as they come have made-up ids and no address: here they get real ones.
const SHOWN = {
  form: "8a0e2f3c-6a58-4d5c-9d3e-2f0a6f1c7b11",
  listing: "3f6b1c1e-2f53-4c0e-8f6a-51b6a3f0d7aa",
};

/** The texts as they came. */
const originals = new Map();

/** Puts the address of this server, and the given ids of a form and a listing, into every sample. */
export function fillSamples({ form = SHOWN.form, listing = SHOWN.listing }) {
  const { origin } = location;
  if (originals.size === 0) remember();
  for (const [text, original] of originals) {
    text.data = original
      .replaceAll("http://127.0.0.1:3000", origin)
      .replaceAll(SHOWN.form, form)
      .replaceAll(SHOWN.listing, listing);
    if (!text.parentElement.closest(".sample")) continue;
    text.data = text.data
      .replaceAll("process.env.GUEST_FORMS_BASE_URL", JSON.stringify(origin))
      .replaceAll("$GUEST_FORMS_BASE_URL", origin);
  }
}

function remember() {
  for (const code of document.querySelectorAll("pre code")) {
    const texts = document.createTreeWalker(code, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) originals.set(texts.currentNode, texts.currentNode.data);
  }
}
