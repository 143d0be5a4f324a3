// Loaded by every page: fills the samples, and adds copy buttons, the menu for small screens and the search.
import { element } from "./element.js";
import { fillSamples } from "./samples.js";
import { startSearch } from "./search.js";

fillSamples({});
startSearch(...["#search", "#found", "#results"].map((id) => document.querySelector(id)));

// Browsers provide the clipboard only on HTTPS and localhost.
for (const block of navigator.clipboard ? document.querySelectorAll("pre:has(code)") : []) {
  const button = element("button", { className: "copy" }, "Copy");
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(block.querySelector("code").textContent);
    button.textContent = "Copied";
    setTimeout(() => button.replaceChildren("Copy"), 1500);
  });
  block.append(button);
}

const pages = document.querySelector("#pages");
pages.addEventListener("click", ({ target }) => target.closest("a") && pages.hidePopover());

// Selecting a language applies to all samples, also of later visits.
const LANGUAGE = "guest-forms-language";

document.addEventListener("change", ({ target }) => {
  if (target.type !== "radio") return;
  selectLanguage(target.value);
  localStorage.setItem(LANGUAGE, target.value);
});

function selectLanguage(language) {
  for (const radio of document.querySelectorAll("[type=radio]")) radio.checked ||= radio.value === language;
}

// Last, because it throws where the browser allows no storage.
selectLanguage(localStorage.getItem(LANGUAGE));
