/** The audit log: who changed what, when and from where. */
import type { JSX } from 'preact';
import { Link } from 'wouter-preact';

import {
  LIST_ACTIVITY,
  LIST_ACTIVITY_KEYS,
  LIST_FOUND_ENDPOINTS,
  LIST_NODE_NAMES,
  type AuditRow,
  type ListActivityResult,
  type Operation,
} from '../api/graphql/gen/operations.ts';
import { useAction, useLive } from '../api/live.ts';
import { graphql } from '../api/request.ts';
import { useWriteRefusal } from '../api/session.ts';
import { save } from '../ui/download.ts';
import { time } from '../ui/format.ts';
import { Failure, Loaded, Page, SinceTime, Table, Text } from '../ui/parts.tsx';
import { visible } from '../ui/plain-text.ts';
import { boundsOf, useTimeRange, type TimeRange } from '../ui/time-range.tsx';
import { PAGE, usePages, useUrlState } from '../ui/url-state.ts';
import { changeLines, type ChangeLine } from './activity-change.ts';

const DEFAULTS = { key: '', action: '', object: '', [PAGE]: '' };
type Filter = Readonly<Record<'key' | 'action' | 'object', string>>;

const POLL_MS = 5_000;
const NAMES_MS = 60_000;
/** Of a file. */
const MAX_ENTRIES = 20_000;
/** More lines of an entry are folded. */
const MAX_LINES = 3;

interface MutationNames {
  readonly __type: { readonly fields: readonly { readonly name: string }[] };
}
const MUTATIONS: Operation<MutationNames, unknown> = '{ __type(name: "Mutation") { fields { name } } }';
/** Mutations that leave no entry, or that of another. */
const NOT_RECORDED = new Set(['startWorker', 'deleteEndpoint']);
const OTHER_ACTIONS = ['prepareMasterKey', 'rotateMasterKey', 'signIn', 'signOut', 'snapshotQueue'];

/** The page. Keys that may not change anything may not read it either. */
export function ActivityPage(): JSX.Element {
  const refusal = useWriteRefusal();
  return (
    <Page title="Activity">
      {refusal === undefined ? <Activity /> : <p class="muted">This needs a key with the scope ALL or OPERATOR.</p>}
    </Page>
  );
}

/** Leads to what happened to an object; nothing where the key may not read it. */
export function ActivityLink({ of }: { of: Partial<Filter> }): JSX.Element | null {
  const refusal = useWriteRefusal();
  return refusal === undefined ? <Link href={`/activity?${new URLSearchParams(of).toString()}`}>Activity</Link> : null;
}

/** The address has the filter. */
function filterOf(filter: Filter, range: TimeRange): Readonly<Record<string, unknown>> {
  const { from, to } = boundsOf(range);
  return { ...filter, sinceMs: from, ...(to === null ? {} : { untilMs: to }) };
}

function Activity(): JSX.Element {
  const [{ key, action, object }, set] = useUrlState(DEFAULTS);
  const change: typeof set = (changes, how) => set({ ...changes, [PAGE]: '' }, how);
  const { range, field } = useTimeRange(['90d', '7d', '24h', '1h']);
  const { after, newer, older } = usePages();
  const filter = { key: key.trim(), action, object: object.trim() };
  const query = useLive(
    ['activity', filter.key, filter.action, filter.object, range.key, after],
    (signal) => graphql(LIST_ACTIVITY, { filter: filterOf(filter, range), before: after }, signal),
    after === null ? POLL_MS : false,
  );
  const keys = useLive(['activity-keys'], (signal) => graphql(LIST_ACTIVITY_KEYS, {}, signal), NAMES_MS).data?.apiKeys ?? [];
  const actions = useLive(['activity-actions'], (signal) => graphql(MUTATIONS, {}, signal), false).data?.__type.fields ?? [];
  const targets = useTargets();
  const download = useAction(() => saveEntries(filterOf(filter, range)));
  const known = keys.some(({ id }) => id === key);
  return (
    <>
      <p class="muted">
        Every change of the control plane, for 90 days. Values of variables and secrets are not recorded.{' '}
        <code>capstan audit --all --ndjson</code> writes the whole log.
      </p>
      <div class="fields">
        <div>
          <label for="activity-key">Key</label>
          <select id="activity-key" value={key} onChange={(event) => change({ key: event.currentTarget.value })}>
            <option value="">all</option>
            {keys.map(({ id, name }) => (
              <option key={id} value={id}>
                {visible(name)}
              </option>
            ))}
            {key !== '' && !known && <option value={key}>{visible(key)}</option>}
          </select>
        </div>
        <div>
          <label for="activity-action">Action</label>
          <select id="activity-action" value={action} onChange={(event) => change({ action: event.currentTarget.value })}>
            <option value="">all</option>
            {actionNames(actions, action).map((name) => (
              <option key={name} value={name}>
                {visible(name)}
              </option>
            ))}
          </select>
        </div>
        <div>
          <label for="activity-object">Object</label>
          <input
            id="activity-object"
            type="search"
            value={object}
            placeholder="default/chat"
            onInput={(event) => change({ object: event.currentTarget.value }, 'replace')}
          />
        </div>
        {field}
        <button type="button" disabled={download.isPending} onClick={() => download.mutate(undefined)}>
          Download
        </button>
      </div>
      <Failure error={download.error} />
      <Loaded query={query}>
        {({ audit: { entries, next } }) => (
          <>
            <Table
              label="Activity"
              rows={entries}
              id={({ id }) => id}
              empty={next === null ? 'No change.' : 'None of the newest entries matches: earlier ones may.'}
              columns={[
                {
                  title: 'Time',
                  cell: ({ at }) => (
                    <>
                      {time(at)}
                      <div class="muted">
                        <SinceTime at={at} />
                      </div>
                    </>
                  ),
                },
                {
                  title: 'Key',
                  cell: ({ key: id, keyName }) => (
                    <button type="button" class="order" title={`Only of this key (${visible(id)})`} onClick={() => change({ key: id })}>
                      <Text of={keyName === '' ? id || 'service' : keyName} />
                    </button>
                  ),
                },
                { title: 'From', cell: ({ address }) => <Text of={address ?? '–'} /> },
                { title: 'Action', cell: (row) => <Text of={row.action} /> },
                { title: 'Object', isLong: true, cell: (row) => <ObjectName of={row} targets={targets} /> },
                { title: 'Before and after', isLong: true, cell: (row) => <Change lines={changeLines(row.before, row.after)} /> },
              ]}
            />
            <div class="actions">
              <button type="button" disabled={after === null} onClick={newer}>
                Newer
              </button>
              <button type="button" disabled={next === null} onClick={() => next !== null && older(next)}>
                Older
              </button>
            </div>
          </>
        )}
      </Loaded>
    </>
  );
}

function actionNames(fields: readonly { readonly name: string }[], current: string): readonly string[] {
  const names = new Set([...fields.map(({ name }) => name).filter((name) => !NOT_RECORDED.has(name)), ...OTHER_ACTIONS]);
  if (current !== '') names.add(current);
  return [...names].toSorted();
}

/** Paths of pages by the object of an entry. */
type Targets = ReadonlyMap<string, string>;

function useTargets(): Targets {
  const endpoints = useLive(['activity-endpoints'], (signal) => graphql(LIST_FOUND_ENDPOINTS, {}, signal), NAMES_MS).data?.endpoints ?? [];
  const nodes = useLive(['node-names'], async (signal) => (await graphql(LIST_NODE_NAMES, {}, signal)).nodes, NAMES_MS).data ?? [];
  return new Map([
    ...nodes.map(({ id, name }) => [`node ${name}`, `/nodes/${encodeURIComponent(id)}`] as const),
    ...endpoints.map(({ id, name, environment }) => [`${environment}/${name}`, `/endpoints/${encodeURIComponent(id)}`] as const),
  ]);
}

const OF_NODES = new Set(['drainNode', 'resumeNode', 'removeNode', 'assignNode']);
const OF_KEYS = new Set(['createApiKey', 'revokeApiKey']);
const OF_CHANNELS = new Set(['addAlertChannel', 'removeAlertChannel', 'testAlertChannel']);

function ObjectName({ of, targets }: { of: AuditRow; targets: Targets }): JSX.Element {
  const { action, object } = of;
  const text = OF_CHANNELS.has(action) ? (addressOf(of.after) ?? addressOf(of.before) ?? object) : object;
  const path = OF_KEYS.has(action)
    ? `/keys?filter=${encodeURIComponent(object)}`
    : targets.get(OF_NODES.has(action) ? `node ${object}` : object);
  return path === undefined ? <Text of={text} /> : <Link href={path}>{visible(text)}</Link>;
}

function addressOf(facts: unknown): string | undefined {
  const { address } = (facts ?? {}) as { readonly address?: unknown };
  return typeof address === 'string' ? address : undefined;
}

function Change({ lines }: { lines: readonly ChangeLine[] }): JSX.Element {
  if (lines.length === 0) return <span class="muted">–</span>;
  const list = (
    <ul class="plain">
      {lines.map(({ name, before, after }) => (
        <li key={name}>
          <code>{visible(name)}</code>: <Value before={before} after={after} />
        </li>
      ))}
    </ul>
  );
  if (lines.length <= MAX_LINES) return list;
  return (
    <details>
      <summary>{lines.length} values</summary>
      {list}
    </details>
  );
}

function Value({ before, after }: Omit<ChangeLine, 'name'>): JSX.Element {
  return (
    <>
      {before !== '' && (
        <del>
          <Text of={before} />
        </del>
      )}
      {before !== '' && after !== '' && ' → '}
      {after !== '' && (
        <ins>
          <Text of={after} />
        </ins>
      )}
    </>
  );
}

/** Saves all entries that the filter admits, the newest first, one JSON object a line. */
async function saveEntries(filter: Readonly<Record<string, unknown>>): Promise<void> {
  const lines: string[] = [];
  for (let before: string | null = null; lines.length < MAX_ENTRIES;) {
    const { audit }: ListActivityResult = await graphql(LIST_ACTIVITY, { filter, before });
    lines.push(...audit.entries.map((entry) => `${JSON.stringify(entry)}\n`));
    before = audit.next;
    if (before === null) break;
  }
  save('activity.ndjson', new Blob(lines, { type: 'application/x-ndjson' }));
}
