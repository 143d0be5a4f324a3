import { onlineManager, QueryClientProvider } from "@tanstack/preact-query";
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { CallFailed, callSession, toFailure } from "./core.js";
import { Dialog } from "./parts/dialog.js";
import { type Field, Form, type Values } from "./parts/form.js";
import { Problem, useNotify } from "./parts/notices.js";
import { AFTER_FAILURE_MS, createQueryClient, isTemporary } from "./queries.js";

export interface Session {
  /** The operator who is signed in. */
  name: string;
  signOut: () => Promise<void>;
}

/** Says to the other tabs who is signed in: they have the same cookie. */
const tabs = new BroadcastChannel("session");
const SIGNED_OUT = "";

/**
 * Shows the console to those who are signed in. If the session ends while a page is open, the page is hidden and stays with what
 * was typed until the same operator signs in again.
 */
export function WithSession({ children }: { children: (session: Session) => ComponentChildren }) {
  const [name, setName] = useState<string>();
  const [state, setState] = useState<"checking" | "in" | "out" | "failed">("checking");
  const [error, setError] = useState<unknown>();
  const notify = useNotify();
  const client = useMemo(() => createQueryClient(() => setState("out")), []);
  // Nothing is read while the page is hidden.
  useEffect(() => onlineManager.setOnline(state === "in"), [state]);
  useEffect(() => {
    tabs.onmessage = ({ data }) => {
      if (data === SIGNED_OUT) setState("out");
      else if (name !== undefined && data !== name) location.reload();
    };
  }, [name]);
  const check = async () => {
    try {
      const { name: current = "" } = await callSession("GET");
      tabs.postMessage(current);
      // The page is another operator's.
      if (name !== undefined && name !== current) return location.reload();
      setName(current);
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
      await callSession("DELETE");
    } catch (thrown) {
      return notify("You are still signed in.", thrown);
    }
    tabs.postMessage(SIGNED_OUT);
    setName(undefined);
    client.clear();
    location.replace("/console");
  };
  return (
    <QueryClientProvider client={client}>
      {name !== undefined && <div hidden={state !== "in"}>{children({ name, signOut })}</div>}
      {state === "out" && <SignIn name={name} onSignedIn={check} />}
      {state === "failed" && <Unavailable error={error} check={check} />}
    </QueryClientProvider>
  );
}

/** Why nobody can be signed in. Checks again by itself. */
function Unavailable({ error, check }: { error: unknown; check: () => Promise<void> }) {
  useEffect(() => {
    // Also after another failure.
    const timer = isTemporary(error) ? setTimeout(() => void check(), AFTER_FAILURE_MS) : undefined;
    return () => clearTimeout(timer);
  }, [error]);
  return (
    <main class="container-xxl py-4 vstack gap-3">
      <h1 class="h3 mb-0">Guest forms console</h1>
      <Problem error={error} retry={() => void check()} />
      {isTemporary(error) && (
        <p>
          This page tries again every {AFTER_FAILURE_MS / 1000} seconds. Until then, the command{" "}
          <code>guest-forms doctor</code> says what is wrong.
        </p>
      )}
    </main>
  );
}

async function signIn(values: Values): Promise<void> {
  try {
    await callSession("POST", values);
  } catch (error) {
    const { status, message } = toFailure(error);
    if (status !== 401) throw error;
    const sentence = "The operator’s token is wrong.";
    throw new CallFailed(message, { fields: [{ field: "token", issue: message, sentence }] });
  }
}

const SignIn = ({ name, onSignedIn }: { name: string | undefined; onSignedIn: () => Promise<void> }) => {
  const fields: Field[] = [
    { name: "token", label: "Operator’s token", type: "password", required: true, hint: "The setting INTERNAL_TOKEN" },
    { name: "name", label: "Your name", required: true, value: name, hint: "The audit trail shows it" },
  ];
  return (
    <Dialog title={name === undefined ? "Guest forms console" : "Your session has ended"}>
      <Form fields={fields} submit="Sign in" send={signIn} onDone={() => void onSignedIn()}>
        {name !== undefined && <p>Sign in again to go on. What you typed is still there.</p>}
      </Form>
    </Dialog>
  );
};
