import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { type FormV1, GuestForms } from "../../sdk/src/index.js";

/** Answers lists of two forms, one per page. */
function startService() {
  const createdAt = new Date().toISOString();
  const forms = ["first", "last"].map((id) => ({ id, createdAt, updatedAt: createdAt }) as FormV1);
  const fetch = async (url: string | URL | Request) => {
    const query = new URL(String(url)).searchParams;
    const since = query.get("updatedSince") ?? "";
    const after = query.get("cursor");
    const rest = forms.slice(after ? forms.findIndex(({ id }) => id === after) + 1 : 0);
    const found = rest.filter(({ updatedAt }) => updatedAt >= since);
    const items = structuredClone(found.slice(0, 1));
    return Response.json({ items, nextCursor: found.length > 1 ? found[0]?.id : null });
  };
  const change = (index: number) => Object.assign(forms[index] ?? {}, { updatedAt: new Date().toISOString() });
  return {
    client: new GuestForms({ apiKey: `grf_rw_${"x".repeat(43)}`, baseUrl: "https://fake.test", fetch }),
    change,
  };
}

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"] }));
afterEach(() => void vi.useRealTimers());

const pass = (seconds: number) => vi.setSystemTime(Date.now() + seconds * 1000);

async function read(changes: AsyncIterable<FormV1>, onForm: (id: string) => void = () => {}): Promise<string[]> {
  const ids: string[] = [];
  for await (const { id } of changes) {
    ids.push(id);
    onForm(id);
  }
  return ids;
}

test("a form that changes after its page was read comes with the next mark, however long the read takes", async () => {
  const { client, change } = startService();
  const changes = client.forms.changesSince();
  const ids = await read(changes, (id) => {
    if (id !== "first") return;
    pass(1);
    change(0);
    pass(3_600);
    change(1);
  });
  expect(ids).toEqual(["first", "last"]);
  expect(await read(client.forms.changesSince(changes.mark))).toContain("first");
});

test("the mark is not later than the latest change minus a minute, also if the clock of this machine is set back", async () => {
  const { client } = startService();
  const createdMs = Date.now();
  const changes = client.forms.changesSince();
  await read(changes, () => pass(-3_600));
  expect(changes.mark).toBe(new Date(createdMs - 60_000).toISOString());
});
