// What the samples have instead of this server's address and of real ids.
const ADDRESS = "http://127.0.0.1:3000";
const EXAMPLE_IDS = {
  form: "8a0e2f3c-6a58-4d5c-9d3e-2f0a6f1c7b11",
  listing: "3f6b1c1e-2f53-4c0e-8f6a-51b6a3f0d7aa",
};

/** The unchanged texts of the samples. */
const originals = new Map();
for (const code of document.querySelectorAll(":not(.response) > pre code")) {
  const texts = document.createTreeWalker(code, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) originals.set(texts.currentNode, texts.currentNode.data);
}

/** Fills the address of this server and the given ids into every sample. */
export function fillSamples({ form = EXAMPLE_IDS.form, listing = EXAMPLE_IDS.listing }) {
  for (const [text, original] of originals) {
    text.data = original
      .replaceAll(ADDRESS, location.origin)
      .replaceAll(EXAMPLE_IDS.form, form)
      .replaceAll(EXAMPLE_IDS.listing, listing);
  }
}
