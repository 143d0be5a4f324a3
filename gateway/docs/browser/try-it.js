// Sends requests from the reference page. The key is kept only in this module, and never stored.
import { element } from "./element.js";
import { fillSamples } from "./samples.js";

const KEY = /^grf_(rw|ro)_[0-9A-Za-z]{49}$/;
const MALFORMED = "This is not a whole API key: it begins with grf_rw_ or grf_ro_, and 49 letters and digits follow.";
const OFFLINE = "The server is unreachable.";
const SHOWN_HEADERS = ["Location", "Idempotent-Replayed", "Retry-After", "X-Correlation-Id"];

const status = document.querySelector(".key .status");
let key = "";
/** Resolves when the key's listings and forms are loaded, or loading has failed. */
let loaded = Promise.resolve();

document.addEventListener("input", ({ target }) => {
  if (target.matches(".api-key")) useKey(target.value.trim());
  else target.toggleAttribute("data-typed", target.value !== "");
});
document.addEventListener("change", ({ target }) => {
  if (target.matches(".api-key") && key !== "" && !KEY.test(key)) status.textContent = MALFORMED;
});
document.addEventListener("submit", (event) => {
  event.preventDefault();
  if (event.target.matches(".try form")) submit(event.target);
});

function useKey(typed) {
  if (typed === key) return;
  key = typed;
  for (const field of document.querySelectorAll(".api-key")) {
    if (field.value.trim() !== key) field.value = key;
  }
  status.textContent = "";
  // What the key before may see is not for this one.
  fillScope([], []);
  if (KEY.test(key)) loaded = loadScope(key);
}

const get = async (path) => {
  const response = await fetch(path, { headers: { Authorization: `Bearer ${key}` } });
  return { response, body: await response.json() };
};

/** Reads the listings and forms of the key, and fills them in. */
async function loadScope(usedKey) {
  const results = await Promise.all([get("/v1/listings?limit=100"), get("/v1/forms?limit=100")]).catch(() => []);
  if (usedKey !== key) return;
  const failed = results.find(({ response }) => !response.ok);
  if (failed || results.length === 0) {
    status.textContent = failed ? `${failed.response.status} ${failed.body.code}: ${failed.body.message}` : OFFLINE;
    return;
  }
  const [listings, forms] = results.map(({ body }) => body.items);
  status.textContent = "Key accepted. The samples now use your listings and forms.";
  if (forms.length === 0) status.textContent = "Key accepted. There are no forms yet: create one first.";
  if (listings.length === 0) status.textContent = "Key accepted, but no listing is in its scope.";
  fillScope(listings, forms);
}

/** Fills these listings and forms into the samples and fields; examples if there are none. */
function fillScope(listings, forms) {
  const options = {
    listings: listings.map(({ id, title }) => element("option", { value: id, label: title })),
    forms: forms.map(({ id, checkInDate, status }) =>
      element("option", { value: id, label: `${checkInDate ?? ""} ${status}` }),
    ),
  };
  for (const [id, choices] of Object.entries(options)) document.getElementById(id).replaceChildren(...choices);
  const active = listings.filter((listing) => listing.active);
  const form = forms.find(({ listingId }) => active.some(({ id }) => id === listingId)) ?? forms[0];
  const listing = active.find(({ id }) => id === form?.listingId) ?? active[0] ?? listings[0];
  fillSamples({ form: form?.id, listing: listing?.id });
  fillFields(form, listing);
}

/** Fills required fields that the user has not changed. Those of an update get the form's values. */
function fillFields(form, listing) {
  const ids = { forms: form?.id, listings: listing?.id };
  for (const field of document.querySelectorAll(".try [required]:not([data-typed])")) {
    const { name, dataset } = field;
    const isUpdate = field.form.dataset.method === "PUT" && dataset.in === "body";
    let value = ids[field.getAttribute("list")] ?? field.defaultValue;
    if (name === "numberOfGuests") value = Math.min(value, listing?.maxPeopleInListing ?? value);
    field.value = (isUpdate && form?.[name]) || value;
  }
}

async function submit(form) {
  const message = form.querySelector(".status");
  const keyField = form.querySelector(".api-key");
  if (!KEY.test(key)) {
    message.textContent = key === "" ? "Enter your API key first." : MALFORMED;
    keyField.focus();
    return;
  }
  await loaded;
  if (!form.reportValidity()) {
    message.textContent = status.textContent;
    return;
  }
  const button = form.querySelector("button");
  button.disabled = true;
  const { url, init } = requestOf(form);
  const startedAt = performance.now();
  try {
    const response = await fetch(url, init);
    const text = await response.text();
    show(form, { url, init, response, text, ms: Math.round(performance.now() - startedAt) });
    if (response.status === 201) loaded = loadScope(key);
  } catch {
    message.textContent = OFFLINE;
  }
  button.disabled = false;
}

function requestOf(form) {
  const { method, path } = form.dataset;
  const headers = { Authorization: `Bearer ${key}` };
  const query = new URLSearchParams();
  const body = {};
  let url = path;
  for (const { name, value, dataset } of form.querySelectorAll("[data-in]")) {
    if (value === "") continue;
    if (dataset.in === "path") url = url.replace(`{${name}}`, encodeURIComponent(value));
    if (dataset.in === "query") query.set(name, value);
    if (dataset.in === "header") headers[name] = value;
    if (dataset.in === "body") body[name] = dataset.type === "integer" && /^-?\d+$/.test(value) ? Number(value) : value;
  }
  if (query.size > 0) url += `?${query}`;
  const sendsBody = form.querySelector("[data-in=body]") !== null;
  if (sendsBody) headers["Content-Type"] = "application/json";
  return { url, init: { method, headers, ...(sendsBody && { body: JSON.stringify(body) }) } };
}

function show(form, { url, init, response, text, ms }) {
  const outcome = `${response.status} ${response.statusText}`.trim();
  const code = element("strong", { className: response.ok ? "good" : "bad" }, outcome);
  const [, error] = (!response.ok && /"code":"([A-Z_]+)"/.exec(text)) || [];
  const link = error ? [element("a", { href: `/docs/errors#${error.toLowerCase()}` }, `What ${error} means`)] : [];
  form.querySelector(".status").replaceChildren(code, ` ${init.method} ${url} in ${ms} ms `, ...link);
  const headers = SHOWN_HEADERS.filter((name) => response.headers.has(name));
  const printed = headers.map((name) => `${name}: ${response.headers.get(name)}`);
  const block = form.querySelector(".answer");
  block.textContent = `${printed.join("\n")}\n\n${pretty(text)}`;
  block.hidden = false;
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
