import { beforeEach } from "vitest";
import type { Caller } from "../../server/caller.js";
import type { FormBody, FormV1 } from "../../server/forms/schema.js";
import { openTestCore } from "../support/core.js";
import { asOperator } from "../support/factories.js";
import { fixedStay } from "../support/stays.js";

export const [OLD, NEW] = ["old", "new"].map((name) => `${name}-secret-of-at-least-32-characters`) as [string, string];

export const ADDRESS = "guest@example.com";

export interface Create {
  body: FormBody;
  form: FormV1;
}

/** Processes on one database, after each step of a rotation of secrets. */
export async function openRotation() {
  const { services, owner, sql, openProcess, ...core } = await openTestCore({ APP_SECRETS: OLD });
  await openProcess({ APP_SECRETS: `${OLD},${NEW}` });
  const rotating = await openProcess({ APP_SECRETS: `${NEW},${OLD}` });
  const rotated = await openProcess({ APP_SECRETS: NEW });
  beforeEach(async () => {
    await sql("TRUNCATE forms, erasures, webhook_endpoints CASCADE");
    await sql("UPDATE secret_checks SET needed_until = NULL");
  });
  let guests = 0;
  const stay = (guestEmail: string | null = ADDRESS): FormBody =>
    fixedStay(owner.listingId, { guestEmail, numberOfGuests: ++guests });
  async function create(body = stay(), on = services): Promise<Create> {
    return { body, form: (await owner.create(body, `key of ${body.numberOfGuests}`, on)).form };
  }
  const update = ({ form: { id } }: Create, body: FormBody) => owner.forms.update({ id, ...body });
  /** Runs `reencrypt` to the end. Returns its counts. */
  async function reencrypt(on = rotating) {
    const { secrets } = asOperator(on);
    const counts = { addresses: 0, creates: 0, webhooks: 0 };
    for (let after: string | null | undefined; after !== null; ) {
      const batch: Awaited<ReturnType<Caller["secrets"]["reencrypt"]>> = await secrets.reencrypt({ after });
      counts.addresses += batch.addresses;
      counts.creates += batch.creates;
      counts.webhooks += batch.webhooks;
      after = batch.next;
    }
    return counts;
  }
  const statusOn = (on = rotating) => asOperator(on).secrets.status({});
  return { ...core, services, owner, sql, rotating, rotated, guests, stay, create, update, reencrypt, statusOn };
}
