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
    show(results, count, found.slice(0, MAX_RESULTS));
  });
  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.closest("input, textarea");
    const isShortcut = event.key === "/" ? !isTyping : event.key === "k" && (event.ctrlKey || event.metaKey);
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

function show(results, count, found) {
  const caption = document.createElement("p");
  caption.setAttribute("aria-hidden", "true");
  caption.textContent = count;
  results.replaceChildren(caption, ...found.map(link));
}

function link({ url, title, page, text, terms }) {
  const element = document.createElement("a");
  element.href = url;
  const heading = document.createElement("strong");
  heading.textContent = title === page ? title : `${page}: ${title}`;
  element.append(heading, excerpt(text, terms));
  return element;
}

/** The text around the first of the words, with all of them marked. */
function excerpt(text, words) {
  const places = words.map((word) => text.toLowerCase().indexOf(word)).filter((place) => place >= 0);
  const begin = places.length > 0 ? Math.max(0, Math.min(...places) - 40) : 0;
  const line = document.createElement("span");
  const escaped = words.map((word) => word.replace(/\W/g, "\\$&"));
  const parts = text.slice(begin, begin + 140).split(new RegExp(`(${escaped.join("|")})`, "i"));
  line.append(begin > 0 ? "…" : "");
  for (const part of parts) {
    const mark = document.createElement("mark");
    mark.textContent = part;
    line.append(words.includes(part.toLowerCase()) ? mark : part);
  }
  return line;
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
