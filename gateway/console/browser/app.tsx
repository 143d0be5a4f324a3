import type { ComponentType } from "preact";
import { useEffect, useErrorBoundary } from "preact/hooks";
import { Route, Router, useLocation } from "preact-iso/router";
import { EmailsPage } from "./pages/emails.js";
import { EndpointPage } from "./pages/endpoint.js";
import { addressOf, FindPage, textOf } from "./pages/find.js";
import { FormPage } from "./pages/form.js";
import { FormsPage } from "./pages/forms.js";
import { ListingPage } from "./pages/listing.js";
import { ListingsPage } from "./pages/listings.js";
import { OverviewPage } from "./pages/overview.js";
import { TracePage } from "./pages/trace.js";
import { UserPage } from "./pages/user.js";
import { UsersPage } from "./pages/users.js";
import { WebhooksPage } from "./pages/webhooks.js";
import { Page } from "./parts/page.js";
import { useSession } from "./session.js";

const NAVIGATION = [
  ["/console", "Overview"],
  ["/console/forms", "Forms"],
  ["/console/listings", "Listings"],
  ["/console/users", "Users"],
  ["/console/emails", "Emails"],
  ["/console/webhooks", "Webhooks"],
  ["/console/trace", "Trace"],
] as const;

/** Every page keeps its state while its address has the same path; another id is another page. */
const keyed = <Props extends object>(Component: ComponentType<Props>) =>
  function Keyed(props: Props) {
    const { path } = useLocation();
    return <Component key={path} {...props} />;
  };

const PAGES: Record<string, ComponentType<{ id: string }>> = {
  "/console": OverviewPage,
  "/console/find": FindPage,
  "/console/forms": FormsPage,
  "/console/forms/:id": keyed(FormPage),
  "/console/listings": ListingsPage,
  "/console/listings/:id": keyed(ListingPage),
  "/console/users": UsersPage,
  "/console/users/:id": keyed(UserPage),
  "/console/emails": EmailsPage,
  "/console/webhooks": WebhooksPage,
  "/console/webhooks/:id": keyed(EndpointPage),
  "/console/trace": TracePage,
};

export function App() {
  return (
    <>
      <a class="skip" href="#main">
        Skip to the content
      </a>
      <Header />
      <main id="main" tabIndex={-1}>
        <OpenPage />
      </main>
    </>
  );
}

function OpenPage() {
  const { path } = useLocation();
  const [error, reset] = useErrorBoundary((thrown) => reportError(thrown));
  useEffect(reset, [path]);
  if (error) {
    return (
      <Page title="The page failed">
        <p>This is a bug of the console. The browser’s log has the error.</p>
        <p>
          <button type="button" onClick={() => location.reload()}>
            Load the page again
          </button>
        </p>
      </Page>
    );
  }
  return (
    <Router>
      {Object.entries(PAGES).map(([path, component]) => (
        <Route key={path} path={path} component={component} />
      ))}
      <Route default component={NoSuchPage} />
    </Router>
  );
}

function Header() {
  const { path, query, route } = useLocation();
  const { name, signOut } = useSession();
  const sought = path === "/console/find" ? (textOf(query) ?? "") : "";
  const isOpen = (page: string) => (page === "/console" ? path === page : path.startsWith(page));
  return (
    <header>
      <a class="brand" href="/console">
        Guest forms
      </a>
      <nav aria-label="Pages">
        {NAVIGATION.map(([page, text]) => (
          <a key={page} href={page} aria-current={isOpen(page) ? "page" : undefined}>
            {text}
          </a>
        ))}
      </nav>
      <search>
        <form
          onSubmit={(event) => {
            event.preventDefault();
            const text = `${new FormData(event.currentTarget).get("q")}`.trim();
            if (text) route(addressOf(text));
          }}
        >
          <input
            key={sought}
            name="q"
            type="search"
            aria-label="Find by id, link, name or address"
            placeholder="Find: id, link, name …"
            defaultValue={sought}
          />
        </form>
      </search>
      <div class="who">
        <span>{name}</span>
        <button type="button" class="small" onClick={() => void signOut()}>
          Sign out
        </button>
      </div>
    </header>
  );
}

const NoSuchPage = () => (
  <Page title="No such page">
    <p>
      <a href="/console">Go to the overview.</a>
    </p>
  </Page>
);
