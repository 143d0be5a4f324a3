import type { ComponentType } from "preact";
import { useEffect, useErrorBoundary, useState } from "preact/hooks";
import { Route, Router, useLocation } from "preact-iso/router";
import { EmailsPage } from "./pages/emails.js";
import { FindPage } from "./pages/find.js";
import { FormPage, FormsPage } from "./pages/forms.js";
import { ListingPage, ListingsPage } from "./pages/listings.js";
import { OverviewPage } from "./pages/overview.js";
import { TracePage } from "./pages/trace.js";
import { UserPage, UsersPage } from "./pages/users.js";
import { WebhooksPage } from "./pages/webhooks.js";
import { HERE } from "./parts/cells.js";
import { Tab } from "./parts/list.js";
import { Page } from "./parts/page.js";
import type { Session } from "./session.js";

const NAVIGATION = ["Overview", "Forms", "Listings", "Users", "Emails", "Webhooks", "Trace"];

/** By path. `searchText` is what the reader types into Find. */
const PAGES: Record<string, ComponentType<{ id: string; searchText: string }>> = {
  "/console": OverviewPage,
  "/console/find": FindPage,
  "/console/forms": FormsPage,
  "/console/forms/:id": FormPage,
  "/console/listings": ListingsPage,
  "/console/listings/:id": ListingPage,
  "/console/users": UsersPage,
  "/console/users/:id": UserPage,
  "/console/emails": EmailsPage,
  "/console/webhooks": WebhooksPage,
  "/console/trace": TracePage,
};

export function App({ session }: { session: Session }) {
  const { path, route } = useLocation();
  // Not in the address: it may be a key, a guest's link or an email address.
  const [searchText, setSearchText] = useState("");
  const find = (text: string) => {
    setSearchText(text);
    route("/console/find");
  };
  return (
    <>
      <a class="visually-hidden-focusable btn btn-primary position-absolute top-0 z-3" href="#main">
        Skip to the content
      </a>
      <Header session={session} onFind={find} />
      <main id="main" tabIndex={-1} class="container-xxl py-4">
        {/* A page keeps its state while the path is the same: another id is another page. */}
        <OpenPage key={path} searchText={searchText} />
        <small class="d-block mt-4 text-body-secondary">Times without a zone are in {HERE}.</small>
      </main>
    </>
  );
}

function OpenPage({ searchText }: { searchText: string }) {
  const [error] = useErrorBoundary((thrown) => reportError(thrown));
  if (error) {
    return (
      <Page title="The page failed">
        <p>This is a bug of the console. The browser’s log has the error. Load the page again to go on.</p>
      </Page>
    );
  }
  return (
    <Router>
      {Object.entries(PAGES).map(([path, component]) => (
        <Route key={path} path={path} component={component} searchText={searchText} />
      ))}
      <Route default component={NoSuchPage} />
    </Router>
  );
}

const addressOf = (name: string) => (name === "Overview" ? "/console" : `/console/${name.toLowerCase()}`);

/** On a phone or tablet one row: a menu, with the name of the open page, and Find. */
function Header({ session, onFind }: { session: Session; onFind: (text: string) => void }) {
  const { path } = useLocation();
  const [isMenuOpen, setMenuOpen] = useState(false);
  useEffect(() => setMenuOpen(false), [path]);
  const isOpen = (name: string) =>
    path === addressOf(name) || (name !== "Overview" && path.startsWith(addressOf(name)));
  const part = isMenuOpen ? "" : "d-none";
  return (
    <header class="navbar border-bottom px-3 gap-2">
      <button
        type="button"
        class="btn d-xl-none"
        aria-expanded={isMenuOpen}
        aria-controls="pages account"
        onClick={() => setMenuOpen(!isMenuOpen)}
      >
        <span aria-hidden="true">☰ </span>
        <span class="visually-hidden">Menu, </span>
        {NAVIGATION.find(isOpen) ?? "Find"}
      </button>
      <nav id="pages" class={`nav nav-pills order-1 order-xl-0 d-xl-flex ${part}`} aria-label="Pages">
        {NAVIGATION.map((text) => (
          <Tab key={text} href={addressOf(text)} isOpen={isOpen(text)} text={text} />
        ))}
      </nav>
      <search class="find">
        <form
          onSubmit={(event) => {
            event.preventDefault();
            onFind(`${new FormData(event.currentTarget).get("q")}`.trim());
            // It may be a key.
            event.currentTarget.reset();
          }}
        >
          <input
            class="form-control"
            name="q"
            type="search"
            autocomplete="off"
            aria-label="Find by id, link, name or address"
            placeholder="Find: id, link, name …"
          />
        </form>
      </search>
      <div id="account" class={`hstack gap-2 order-1 d-xl-flex ${part}`}>
        <span>{session.name}</span>
        <button type="button" class="btn btn-sm" onClick={() => void session.signOut()}>
          Sign out
        </button>
      </div>
    </header>
  );
}

const NoSuchPage = () => <Page title="No such page">The address leads nowhere.</Page>;
