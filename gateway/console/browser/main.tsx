import { render } from "preact";
import { LocationProvider } from "preact-iso/router";
import { App } from "./app.js";
import { Notices } from "./parts/notices.js";
import { WithSession } from "./session.js";

/** Bootstrap takes its colors from this attribute. */
const setTheme = ({ matches }: { matches: boolean }) =>
  document.documentElement.setAttribute("data-bs-theme", matches ? "dark" : "light");
const dark = matchMedia("(prefers-color-scheme: dark)");
dark.addEventListener("change", setTheme);
setTheme(dark);

const root = document.getElementById("console");
if (root) {
  render(
    <LocationProvider scope="/console">
      <Notices>
        <WithSession>{(session) => <App session={session} />}</WithSession>
      </Notices>
    </LocationProvider>,
    root,
  );
}
