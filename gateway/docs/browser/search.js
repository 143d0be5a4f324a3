import { element } from "./element.js";

const MAX_RESULTS = 12;

/** Searches all pages; the index is fetched when the field is first used. */
export function startSearch(field, status, results) {
  let index;
  field.addEventListener("input", async () => {
    index ??= fetchIndex(field.dataset.index);
    const search = await index.catch(() => undefined);
    if (!search) index = undefined;
    results.hidden = field.value.trim() === "";
    const found = search?.(field.value) ?? [];
    const count = results.hidden ? "" : describeCount(search && found.length);
    // Screen readers announce it, also while the results are hidden.
    status.textContent = count;
    const caption = element("p", { ariaHidden: "true" }, count);
    results.replaceChildren(caption, ...found.slice(0, MAX_RESULTS).map(link));
  });
  document.addEventListener("keydown", (event) => {
    const isShortcut =
      event.key === "/" ? !event.target.closest("input") : event.key === "k" && (event.ctrlKey || event.metaKey);
    if (isShortcut) {
      event.preventDefault();
      field.focus();
    }
    if (event.key === "Escape") results.hidden = true;
  });
  document.addEventListener("click", ({ target }) => {
    if (target !== field) results.hidden = true;
  });
  field.parentElement.addEventListener("keydown", (event) => moveFocus(event, field, results));
}

async function fetchIndex(url) {
  const [{ createSearch }, response] = await Promise.all([import("./find.ts"), fetch(url)]);
  return createSearch(await response.json());
}

/** `count` is undefined if the index could not be loaded. */
function describeCount(count) {
  if (count === undefined) return "The search could not be loaded. Type again to retry.";
  if (count === 0) return "No results";
  if (count > MAX_RESULTS) return `The first ${MAX_RESULTS} of ${count} results`;
  return count === 1 ? "1 result" : `${count} results`;
}

function link({ url, title, page, text, terms }) {
  const heading = element("strong", {}, title === page ? title : `${page}: ${title}`);
  return element("a", { href: url }, heading, excerpt(text, terms));
}

/** The text around the first of the words, with all of them marked. */
function excerpt(text, words) {
  const pattern = new RegExp(`(${words.map((word) => word.replace(/\W/g, "\\$&")).join("|")})`, "i");
  const begin = Math.max(0, text.search(pattern) - 40);
  const parts = text.slice(begin, begin + 140).split(pattern);
  const marked = parts.map((part, index) => (index % 2 === 1 ? element("mark", {}, part) : part));
  return element("span", {}, begin > 0 ? "…" : "", ...marked);
}

/** Arrow keys move through the results. Enter in the field opens the first one. */
function moveFocus(event, field, results) {
  const targets = [field, ...results.querySelectorAll("a")];
  const current = targets.indexOf(document.activeElement);
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (event.key === "Escape") field.focus();
  if (results.hidden) return;
  if (event.key === "Enter" && current === 0) targets[1]?.click();
  if (step === undefined) return;
  event.preventDefault();
  targets[Math.min(Math.max(current + step, 0), targets.length - 1)].focus();
}
