import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import type { Services } from "../../server/access/context.js";
import type { FormV1 } from "../../server/forms/schema.js";
import { asUser, makeUser, setRole } from "../support/factories.js";
import { makeListingOwner } from "../support/listing-owner.js";
import { History } from "./history.js";

const LISTINGS = 3;
const VISITORS = 2;
/** Of each listing. Creates of two may be in flight at once. */
const WRITERS = 2;
const READERS = 8;

const pick = <Item>(items: readonly Item[]): Item => items[Math.floor(Math.random() * items.length)] as Item;
const positionOf = ({ createdAt, id }: FormV1) => `${createdAt} ${id}`;

type Owner = Awaited<ReturnType<typeof makeListingOwner>>;

interface KnownForm {
  id: string;
  listingId: string;
  /** Which of the writers of the listing changes it. */
  writer: number;
  position: string;
  history: History<FormV1>;
}

/** Some hosts who write on some processes, and everybody's reads on all of them, each compared with what was written. */
export class ObservedService {
  /** Reads that were compared. */
  reads = 0;
  slowestMs = 0;
  readonly #processes: readonly Services[];
  readonly #forms = new Map<string, KnownForm>();
  /** Whether the listing is in the user's scope, by user and listing. */
  readonly #roles = new Map<string, History<boolean>>();
  readonly #creating = new Set<Promise<unknown>>();
  #owners: Owner[] = [];
  #users: string[] = [];
  #isOver = false;

  constructor(processes: readonly Services[]) {
    this.#processes = processes;
  }

  /** Writes and reads for this long. Throws at the first read that no order of the writes explains. */
  async run(ms: number): Promise<void> {
    const [services] = this.#processes as [Services];
    for (let n = 0; n < LISTINGS; n++) this.#owners.push(await makeListingOwner(services));
    const visitors: string[] = [];
    for (let n = 0; n < VISITORS; n++) visitors.push((await makeUser(services)).id);
    this.#users = [...this.#owners.map(({ userId }) => userId), ...visitors];
    for (const { userId, listingId } of this.#owners) {
      for (const user of this.#users) await this.#role(user, listingId).write(async () => user === userId);
    }
    const until = performance.now() + ms;
    const repeat = async (step: () => Promise<unknown>) => {
      while (!this.#isOver && performance.now() < until) await step();
    };
    const all = [
      ...this.#owners.flatMap((owner) =>
        Array.from({ length: WRITERS }, (_, writer) => repeat(() => this.#write(owner, visitors, writer))),
      ),
      ...Array.from({ length: READERS }, () => repeat(() => this.#read())),
      ...this.#owners.map((owner) => this.#follow(owner, repeat)),
    ];
    try {
      await Promise.all(all);
    } finally {
      this.#isOver = true;
      await Promise.allSettled(all);
    }
  }

  #count(from: number, to: number): void {
    this.reads++;
    this.slowestMs = Math.max(this.slowestMs, to - from);
  }

  #role(userId: string, listingId: string): History<boolean> {
    const key = `${userId} ${listingId}`;
    const role = this.#roles.get(key) ?? new History<boolean>();
    this.#roles.set(key, role);
    return role;
  }

  #as = (userId: string) => asUser(pick(this.#processes), userId);

  async #write(owner: Owner, visitors: readonly string[], writer: number): Promise<void> {
    const { userId, listingId } = owner;
    const own = [...this.#forms.values()].filter((form) => form.listingId === listingId && form.writer === writer);
    const { forms } = this.#as(userId);
    const chance = Math.random();
    if (own.length === 0 || chance < 0.4) {
      const creating = this.#create(owner, writer);
      this.#creating.add(creating);
      await creating;
      this.#creating.delete(creating);
    } else if (chance < 0.8 || writer > 0) {
      const { id, history } = pick(own);
      const numberOfGuests = 1 + Math.floor(Math.random() * 1_000);
      await history.write(() => forms.update({ ...owner.body, guestEmail: undefined, id, numberOfGuests }));
    } else {
      const user = pick(visitors);
      const isIn = Math.random() < 0.5;
      await this.#role(user, listingId).write(async () => {
        await setRole(pick(this.#processes), listingId, user, isIn ? "WRITER" : "READER");
        return isIn;
      });
    }
    await sleep(Math.random() * 20);
  }

  async #create({ userId, listingId, body }: Owner, writer: number): Promise<void> {
    const history = new History<FormV1>();
    const { forms } = this.#as(userId);
    const create = () => forms.create({ ...body, guestEmail: undefined, externalId: crypto.randomUUID() });
    const form = await history.write(create);
    this.#forms.set(form.id, { id: form.id, listingId, writer, position: positionOf(form), history });
  }

  /** Waits until everything that a read may have seen is known. */
  async #settle(): Promise<void> {
    const histories = [...this.#forms.values()].map(({ history }) => history);
    const writing = [...histories, ...this.#roles.values()].map(({ settled }) => settled);
    await Promise.allSettled([...writing, ...this.#creating]);
  }

  async #read(): Promise<void> {
    const userId = pick(this.#users);
    const chance = Math.random();
    if (chance < 0.4 && this.#forms.size > 0) await this.#readForm(userId, pick([...this.#forms.values()]));
    else if (chance < 0.5) await this.#readListings(userId);
    else {
      const limit = 1 + Math.floor(Math.random() * 4);
      let cursor: string | null | undefined;
      for (let after = "", pages = 0; pages < 10 && cursor !== null && !this.#isOver; pages++)
        [after, cursor] = await this.#readPage(userId, limit, after, cursor);
    }
  }

  async #readForm(userId: string, { id, listingId, history }: KnownForm): Promise<void> {
    const from = performance.now();
    const { forms } = this.#as(userId);
    const result = await forms.get({ id }).catch((error) => error.serviceCode ?? error);
    const to = performance.now();
    await this.#settle();
    const isIn = this.#role(userId, listingId).possible(from, to);
    const possible = [
      ...(isIn.includes(true) ? history.possible(from, to) : []),
      ...(isIn.includes(false) ? ["RESOURCE_NOT_FOUND"] : []),
    ];
    expect(possible).toContainEqual(result);
    this.#count(from, to);
  }

  async #readListings(userId: string): Promise<void> {
    const from = performance.now();
    const { items } = await this.#as(userId).listings.list({ limit: 100 });
    const to = performance.now();
    await this.#settle();
    for (const { listingId } of this.#owners) {
      const isIn = items.some(({ id }) => id === listingId);
      expect(this.#role(userId, listingId).possible(from, to)).toContain(isIn);
    }
    this.#count(from, to);
  }

  /** Reads the page after a position. Returns the next position and cursor. */
  async #readPage(
    userId: string,
    limit: number,
    after: string,
    cursor: string | undefined,
  ): Promise<[string, string | null]> {
    const from = performance.now();
    const { items, nextCursor } = await this.#as(userId).forms.list({ limit, ...(cursor && { cursor }) });
    const to = performance.now();
    await this.#settle();
    const positions = items.map(positionOf);
    expect(positions).toEqual([...new Set(positions)].sort());
    const isInScope = (listingId: string) => this.#role(userId, listingId).possible(from, to);
    for (const item of items) {
      expect(this.#forms.get(item.id)?.history.possible(from, to)).toContainEqual(item);
      expect(isInScope(item.listingId)).toContain(true);
    }
    const end = nextCursor === null ? "~" : (positions.at(-1) ?? "");
    for (const { listingId, position, history } of this.#forms.values()) {
      if (position <= after || position > end || !history.existsAt(from) || isInScope(listingId).includes(false))
        continue;
      expect(positions).toContain(position);
    }
    this.#count(from, to);
    return [end, nextCursor];
  }

  /** Follows the list of a host to its end, whose cursor it polls. In the end, it has read every form exactly once. */
  async #follow({ userId, listingId }: Owner, repeat: (step: () => Promise<unknown>) => Promise<void>): Promise<void> {
    const read: string[] = [];
    let last: string[] = [];
    let cursor: string | undefined;
    const step = async () => {
      const page = await this.#as(userId).forms.list({ limit: 2, ...(cursor && { cursor }) });
      last = page.items.map(({ id }) => id);
      if (page.nextCursor === null) return sleep(2);
      read.push(...last);
      cursor = page.nextCursor;
    };
    await repeat(step);
    await this.#settle();
    for (let end = performance.now() + 60_000, isLast = false; !isLast && performance.now() < end; ) {
      const before = cursor;
      await step();
      isLast = before === cursor;
    }
    const all = [...this.#forms.values()].filter((form) => form.listingId === listingId);
    const inOrder = all.sort((a, b) => (a.position < b.position ? -1 : 1)).map(({ id }) => id);
    expect([...read, ...last]).toEqual(inOrder);
  }
}
