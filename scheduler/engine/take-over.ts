/** Reads everything take-over needs, page by page. */
import type { StoredState } from '../core/restore.ts';
import { controlKinds, type ControlKind, type ControlRow, type JobRow, type Store } from '../store/store.ts';

const PAGE_SIZE = 500;

export async function readState(store: Store): Promise<StoredState> {
  const control: ControlRow[] = [];
  for (const kind of controlKinds) control.push(...(await allControl(store, kind)));
  return {
    control,
    counts: await store.read('counts'),
    leased: await allLeased(store),
    highest: await store.read('highest'),
    bodies: await store.read('bodyUsage'),
  };
}

async function allControl(store: Store, kind: ControlKind): Promise<ControlRow[]> {
  const rows: ControlRow[] = [];
  for (let after = ''; ;) {
    const page = await store.read('control', kind, after, PAGE_SIZE);
    rows.push(...page);
    const last = page.at(-1);
    if (last === undefined || page.length < PAGE_SIZE) return rows;
    after = last.key;
  }
}

async function allLeased(store: Store): Promise<JobRow[]> {
  const rows: JobRow[] = [];
  for (let after = 0; ;) {
    const page = await store.read('leased', after, PAGE_SIZE);
    rows.push(...page);
    const last = page.at(-1);
    if (last === undefined || page.length < PAGE_SIZE) return rows;
    after = last.seq;
  }
}
