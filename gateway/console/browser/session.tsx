import { QueryClientProvider } from "@tanstack/preact-query";
import { type ComponentChildren, createContext } from "preact";
import { useContext, useEffect, useMemo, useState } from "preact/hooks";
import { request, toFailure } from "./core.js";
import { Dialog } from "./parts/dialog.js";
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

/**
 * Shows the console to those who are signed in. If the session ends while a page is open, the page stays with what was typed, and
 * the sign-in opens above it.
 */
export function WithSession({ children }: { children: ComponentChildren }) {
  const [name, setName] = useState<string>();
  const [state, setState] = useState<"checking" | "in" | "out" | "failed">("checking");
  const [error, setError] = useState<unknown>();
  const client = useMemo(() => createQueryClient(() => setState("out")), []);
  const check = async () => {
    try {
      setName((await whoIsSignedIn()).name);
      setState("in");
      await client.invalidateQueries();
    } catch (thrown) {
      setError(thrown);
      setState(toFailure(thrown).status === 401 ? "out" : "failed");
    }
  };
  useEffect(() => void check(), []);
  const signOut = async () => {
    await request("DELETE", PATH);
    // With all data of the pages.
    location.assign("/console");
  };
  return (
    <QueryClientProvider client={client}>
      {name !== undefined && <Current.Provider value={{ name, signOut }}>{children}</Current.Provider>}
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
