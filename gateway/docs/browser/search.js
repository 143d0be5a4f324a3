const MAX_RESULTS = 12;

/** Searches all pages; the index is fetched when the field is first used. */
export function startSearch(field, results) {
  let index;
  field.addEventListener("input", async () => {
    index ??= fetch(field.dataset.index).then((response) => (response.ok ? response.json() : []));
    const sections = await index.catch(() => []);
    if (sections.length === 0) index = undefined;
    const words = wordsOf(field.value);
    results.hidden = words.length === 0;
    show(results, find(sections, words), words);
  });
  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.closest("input, textarea");
    if (event.key === "/" && !isTyping) {
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

const wordsOf = (text) => text.toLowerCase().split(/\s+/).filter(Boolean);

/** Sections with every word; those with more words in their title come first. */
function find(sections, words) {
  const scored = sections.map((section) => ({ section, score: scoreOf(section, words) }));
  return scored
    .filter(({ score }) => score > 0)
    .sort((a, b) => b.score - a.score)
    .map(({ section }) => section);
}

function scoreOf({ title, page, text }, words) {
  const lowerTitle = title.toLowerCase();
  const allText = `${title} ${page} ${text}`.toLowerCase();
  if (!words.every((word) => allText.includes(word))) return 0;
  return 1 + words.filter((word) => lowerTitle.includes(word)).length;
}

function show(results, found, words) {
  const status = document.createElement("p");
  status.setAttribute("role", "status");
  status.textContent = found.length === 0 ? "No results" : `${found.length} results`;
  if (found.length === 1) status.textContent = "1 result";
  results.replaceChildren(status, ...found.slice(0, MAX_RESULTS).map((section) => link(section, words)));
}

function link({ url, title, page, text }, words) {
  const element = document.createElement("a");
  element.href = url;
  const heading = document.createElement("strong");
  heading.textContent = title === page ? title : `${page}: ${title}`;
  element.append(heading, excerpt(text, words));
  return element;
}

/** The text around the first word found, with the words marked. */
function excerpt(text, words) {
  const first = Math.min(...words.map((word) => text.toLowerCase().indexOf(word)).filter((place) => place >= 0));
  const begin = Number.isFinite(first) ? Math.max(0, first - 40) : 0;
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
