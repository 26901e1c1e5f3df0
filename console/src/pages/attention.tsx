import type { JSX } from 'preact';
import { useEffect } from 'preact/hooks';
import { Link } from 'wouter-preact';

import {
  CREATE_ANOTHER_KEY,
  LOWER_WORKERS_MIN,
  OPEN_LOGS,
  RAISE_WORKERS_MAX,
  raiseQuotaOf,
  RESEND_ALL_FAILED,
  RESUME,
  RETRY_ALL_FAILED,
  ROLL_BACK,
  SHOW_WHY,
} from '../../../lib/incident-actions.ts';
import { LIST_INCIDENTS, type Effect, type Incident, type ListIncidentsResult } from '../api/graphql/gen/operations.ts';
import { refreshNodes, useLive } from '../api/live.ts';
import { graphql } from '../api/request.ts';
import { age, time } from '../ui/format.ts';
import { CopyButton, Loaded, Section, Text } from '../ui/parts.tsx';
import { setTitle } from '../ui/title.ts';
import { RunbookSection } from './runbook.tsx';

const POLL_MS = 2_000;

/** Reads the incidents, also where they are not shown: the tab's title counts them. */
export function useIncidents(isEnabled: boolean): ReturnType<typeof useLive<ListIncidentsResult>> {
  const query = useLive(
    ['incidents'],
    (signal) => (isEnabled ? graphql(LIST_INCIDENTS, {}, signal) : Promise.resolve({ attention: { omitted: 0, items: [] } })),
    isEnabled && POLL_MS,
  );
  const { items = [], omitted = 0 } = query.data?.attention ?? {};
  const count = items.length + omitted;
  useEffect(() => setTitle({ incidents: count }), [count]);
  // A node that left or came back begins or ends an incident.
  const keys = items.map(({ key }) => key).join('\n');
  useEffect(() => (query.data === undefined ? undefined : refreshNodes()), [keys, query.data === undefined]);
  return query;
}

/** What needs a person now: one incident a cause, its effects below it, what to do at hand. */
export function NeedsAttention(): JSX.Element {
  const query = useIncidents(true);
  return (
    <Section title="Needs attention">
      <Loaded query={query}>
        {({ attention: { items, omitted } }) =>
          items.length === 0 ? (
            <p class="muted">Nothing.</p>
          ) : (
            <ul class="plain incidents">
              {items.map((item) => (
                <IncidentItem key={item.key} of={item} />
              ))}
              {omitted > 0 && <li>{omitted} more are not listed.</li>}
            </ul>
          )
        }
      </Loaded>
    </Section>
  );
}

function IncidentItem({ of }: { of: Incident }): JSX.Element {
  const { severity, actions, effects, runbook } = of;
  return (
    <li class={severity.toLowerCase()}>
      <div>
        <span class={`badge ${severity === 'CRITICAL' ? 'bad' : 'warn'}`}>{severity === 'CRITICAL' ? 'critical' : 'warning'}</span>{' '}
        <Message of={of} /> <code class="muted">{of.kind}</code>
      </div>
      {effects.length > 0 && (
        <details>
          <summary>
            {effects.length} {effects.length === 1 ? 'effect' : 'effects'}
          </summary>
          <ul class="plain">
            {effects.map((effect) => (
              <li key={effect.key}>
                <Message of={effect} />
              </li>
            ))}
          </ul>
        </details>
      )}
      {actions.length > 0 && (
        <details>
          <summary>{actions.map(({ label }) => label).join(', ')}</summary>
          <ul class="plain">
            {actions.map(({ label, command }) => (
              <li key={label} class="actions">
                <ActionLink label={label} of={of} /> <code>{command}</code> <CopyButton text={command} />
              </li>
            ))}
          </ul>
        </details>
      )}
      <RunbookSection address={runbook} />
    </li>
  );
}

/** The message with its subject as a link, and since when. */
function Message({ of: { subject, message, since, endpoint, node } }: { of: Effect }): JSX.Element {
  const path =
    endpoint === null ? (node === null ? undefined : `/nodes/${encodeURIComponent(node)}`) : `/endpoints/${encodeURIComponent(endpoint)}`;
  const rest = message.startsWith(subject) ? message.slice(subject.length) : ` ${message}`;
  return (
    <>
      <strong>
        {path === undefined ? (
          <Text of={subject} />
        ) : (
          <Link href={path}>
            <Text of={subject} />
          </Link>
        )}
      </strong>
      <Text of={rest} />
      {since !== null && (
        <span class="muted">
          {' '}
          – for {age(Date.now() - Date.parse(since))}, since {time(since)}
        </span>
      )}
    </>
  );
}

/** Pages of an endpoint where an action is carried out, by its label. */
const TABS: Readonly<Record<string, string>> = {
  [OPEN_LOGS]: 'logs',
  [ROLL_BACK]: 'releases',
  [RESUME]: 'settings',
  [SHOW_WHY]: '',
  [RETRY_ALL_FAILED]: 'jobs',
  [RAISE_WORKERS_MAX]: 'settings',
  [LOWER_WORKERS_MIN]: 'settings',
};
const PAGES: Readonly<Record<string, string>> = {
  [RESEND_ALL_FAILED]: '/webhooks',
  [CREATE_ANOTHER_KEY]: '/keys',
  [raiseQuotaOf('workers')]: '/account',
  [raiseQuotaOf('builds')]: '/account',
  [raiseQuotaOf('bodies')]: '/account',
};

function pageOf(label: string, node: string | null): string | undefined {
  return node === null ? PAGES[label] : `/nodes/${encodeURIComponent(node)}`;
}

function ActionLink({ label, of: { endpoint, node } }: { label: string; of: Effect }): JSX.Element {
  const tab = TABS[label];
  const path = endpoint !== null && tab !== undefined ? `/endpoints/${encodeURIComponent(endpoint)}/${tab}` : pageOf(label, node);
  return path === undefined ? <span>{label}</span> : <Link href={path}>{label}</Link>;
}
