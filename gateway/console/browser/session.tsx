import { onlineManager, QueryClientProvider } from "@tanstack/preact-query";
import { type ComponentChildren, createContext } from "preact";
import { useContext, useEffect, useMemo, useState } from "preact/hooks";
import { request, toFailure } from "./core.js";
import { Dialog } from "./parts/dialog.js";
import { useNotify } from "./parts/notices.js";
import { Problem } from "./parts/states.js";
import { createQueryClient } from "./queries.js";

const PATH = "/console/session";

interface Session {
  name: string;
  signOut: () => Promise<void>;
}

const Current = createContext<Session>({ name: "", signOut: async () => {} });

/** Who is signed in. */
export const useSession = () => useContext(Current);

const whoIsSignedIn = () => request("GET", PATH) as Promise<{ name: string }>;

/** Tells the other tabs who is signed in: they have the same cookie. */
const tabs = new BroadcastChannel("session");

/**
 * Shows the console to those who are signed in. If the session ends while a page is open, the page is hidden and stays with what
 * was typed until the same operator signs in again.
 */
export function WithSession({ children }: { children: ComponentChildren }) {
  const [name, setName] = useState<string>();
  const [state, setState] = useState<"checking" | "in" | "out" | "failed">("checking");
  const [error, setError] = useState<unknown>();
  const { notifyFailure } = useNotify();
  const client = useMemo(() => createQueryClient(() => setState("out")), []);
  // Nothing is read while the page is hidden.
  useEffect(() => onlineManager.setOnline(state === "in"), [state]);
  useEffect(() => {
    tabs.onmessage = ({ data }) => data !== name && location.reload();
  }, [name]);
  const check = async () => {
    try {
      const now = (await whoIsSignedIn()).name;
      tabs.postMessage(now);
      // The page is another operator's.
      if (name !== undefined && name !== now) return location.reload();
      setName(now);
      setState("in");
      void client.invalidateQueries();
    } catch (thrown) {
      setError(thrown);
      setState(toFailure(thrown).status === 401 ? "out" : "failed");
    }
  };
  useEffect(() => {
    void check();
    // A page that Back takes from memory shows what was read before the sign-out.
    addEventListener("pageshow", ({ persisted }) => persisted && location.reload());
  }, []);
  const signOut = async () => {
    try {
      await request("DELETE", PATH);
    } catch (thrown) {
      return notifyFailure("You are still signed in.", thrown);
    }
    setName(undefined);
    client.clear();
    location.replace("/console");
  };
  return (
    <QueryClientProvider client={client}>
      {name !== undefined && (
        <Current.Provider value={{ name, signOut }}>
          <div hidden={state !== "in"}>{children}</div>
        </Current.Provider>
      )}
      {state === "out" && <SignIn name={name} onSignedIn={check} />}
      {state === "failed" && <Problem error={error} retry={() => void check()} />}
    </QueryClientProvider>
  );
}

function SignIn({ name, onSignedIn }: { name: string | undefined; onSignedIn: () => Promise<void> }) {
  const [error, setError] = useState<unknown>();
  const [isSending, setSending] = useState(false);
  useEffect(() => {
    if (name === undefined) document.title = "Sign in · Guest forms console";
    else document.getElementById("sign-in-token")?.focus();
  }, []);
  const signIn = async (form: HTMLFormElement) => {
    const { token, name } = Object.fromEntries(new FormData(form));
    setSending(true);
    setError(undefined);
    try {
      await request("POST", PATH, { token, name });
      await onSignedIn();
    } catch (thrown) {
      setError(thrown);
      setSending(false);
    }
  };
  return (
    <Dialog title={name === undefined ? "Guest forms console" : "Your session has ended"}>
      <form
        class="fields"
        onSubmit={(event) => {
          event.preventDefault();
          void signIn(event.currentTarget);
        }}
      >
        {name !== undefined && <p>Sign in again to go on. What you typed is still there.</p>}
        <div class="field">
          <label for="sign-in-name">Your name</label>
          <input id="sign-in-name" name="name" required maxLength={80} autocomplete="name" defaultValue={name ?? ""} />
          <small class="quiet">The audit trail shows it beside your changes.</small>
        </div>
        <div class="field">
          <label for="sign-in-token">Operator’s token</label>
          <input id="sign-in-token" name="token" type="password" required autocomplete="off" />
          <small class="quiet">The service’s setting INTERNAL_TOKEN.</small>
        </div>
        {error ? <SignInProblem error={error} /> : null}
        <button type="submit" class="primary" disabled={isSending}>
          Sign in
        </button>
      </form>
    </Dialog>
  );
}

function SignInProblem({ error }: { error: unknown }) {
  if (toFailure(error).status !== 401) return <Problem error={error} />;
  return (
    <div class="problem" role="alert">
      <p>
        <strong>The token is wrong.</strong> It is the setting INTERNAL_TOKEN of the service.
      </p>
    </div>
  );
}
