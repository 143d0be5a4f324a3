import { render } from "preact";
import { LocationProvider } from "preact-iso/router";
import { App } from "./app.js";
import { Notices } from "./parts/notices.js";
import { WithSession } from "./session.js";

const root = document.getElementById("console");
if (root) {
  render(
    <LocationProvider scope="/console">
      <Notices>
        <WithSession>
          <App />
        </WithSession>
      </Notices>
    </LocationProvider>,
    root,
  );
}
