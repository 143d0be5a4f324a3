import pg from "pg";
import { vi } from "vitest";

export interface PlanNode {
  "Node Type": string;
  "Relation Name"?: string;
  "Index Name"?: string;
  "Index Cond"?: string;
  "Sort Key"?: string[];
  Plans?: PlanNode[];
}

/** The plan with which Postgres executed a statement of a client or a trigger. */
export interface RecordedPlan {
  /** Name of a prepared statement, otherwise its text. */
  statement: string;
  /** As it is sent. */
  text: string;
  plan: PlanNode;
}

const AUTO_EXPLAIN = {
  session_preload_libraries: "auto_explain",
  "auto_explain.log_min_duration": "0",
  "auto_explain.log_nested_statements": "on",
  "auto_explain.log_level": "notice",
  "auto_explain.log_format": "json",
};

/** Returns a URL whose sessions report the plan of every statement that they execute. Needs a superuser. */
export function withPlans(databaseUrl: string): string {
  const url = new URL(databaseUrl);
  const settings = Object.entries(AUTO_EXPLAIN).map(([name, value]) => `-c ${name}=${value}`);
  url.searchParams.set("options", settings.join(" "));
  return url.href;
}

const normalize = (text: string) => text.trim().replace(/\s+/g, " ");

/** Records the plans of all statements that `work` sends over connections opened with `withPlans`, in any pool. */
export async function recordPlans(work: () => Promise<void>): Promise<RecordedPlan[]> {
  const plans: { text: string; plan: PlanNode }[] = [];
  const names = new Map<string, { name: string; text: string }>();
  const clients = new WeakSet<pg.Client>();
  const onNotice = ({ message = "" }) => {
    const [, json] = /^duration: [^\n]* plan:\n(.*)$/s.exec(message) ?? [];
    if (!json) return;
    const { "Query Text": text, Plan: plan } = JSON.parse(json);
    plans.push({ text: normalize(text), plan });
  };
  const send = pg.Client.prototype.query as (...args: unknown[]) => unknown;
  function query(this: pg.Client, ...args: unknown[]) {
    const [{ name, text = "" } = {}] = args as [{ name?: string; text?: string }];
    if (name) names.set(normalize(text), { name, text });
    if (!clients.has(this)) this.on("notice", onNotice);
    clients.add(this);
    return send.apply(this, args);
  }
  const spy = vi.spyOn(pg.Client.prototype, "query").mockImplementation(query as typeof pg.Client.prototype.query);
  try {
    await work();
  } finally {
    spy.mockRestore();
  }
  // Prisma's statements are named by a hash.
  const isReadable = (name = "") => /^[a-z_]+(-[a-z_]+)*$/.test(name);
  return plans.map(({ text, plan }) => {
    const prepared = names.get(text);
    return prepared && isReadable(prepared.name)
      ? { statement: prepared.name, text: prepared.text, plan }
      : { statement: text, text, plan };
  });
}

/** Returns all nodes of a plan. */
export const planNodes = (node: PlanNode): PlanNode[] => [node, ...(node.Plans ?? []).flatMap(planNodes)];
