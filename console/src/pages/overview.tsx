import type { JSX } from 'preact';
import { Link } from 'wouter-preact';

import { LIST_ENDPOINTS, type EndpointRow } from '../api/graphql/gen/operations.ts';
import { useLive } from '../api/live.ts';
import { graphql } from '../api/request.ts';
import { useWholeAccount } from '../api/session.ts';
import { Badge, Loaded, Page, Section, Table, Text } from '../ui/parts.tsx';
import { visible } from '../ui/plain-text.ts';
import { useUrlState } from '../ui/url-state.ts';
import { ActivityLine, useActivityLines } from './activity-lines.tsx';
import { NeedsAttention } from './attention.tsx';
import { NodesSummary } from './nodes-summary.tsx';

/** A word for what the endpoint does now; the reason of waiting jobs comes first. */
function stateOf({ workers, queue }: EndpointRow): string {
  if (queue.reason !== null) return queue.reason;
  if (workers.max === 0) return 'PAUSED';
  if (queue.inProgress > 0) return 'RUNNING';
  return workers.total > 0 ? 'READY' : 'IDLE';
}

/** What needs attention, endpoints of all environments, nodes. */
export function OverviewPage(): JSX.Element {
  const coversAll = useWholeAccount();
  const [{ filter: text }, change] = useUrlState({ filter: '' });
  const query = useLive(['endpoints'], (signal) => graphql(LIST_ENDPOINTS, {}, signal));
  const lines = useActivityLines(query.data?.endpoints ?? []);
  return (
    <Page title="Overview">
      <Loaded query={query}>
        {({ endpoints }) => {
          const shown = endpoints
            .filter(({ id, name, environment }) => `${id} ${name} ${environment}`.toLowerCase().includes(text.toLowerCase()))
            .toSorted((a, b) => a.environment.localeCompare(b.environment) || a.name.localeCompare(b.name));
          return (
            <>
              {coversAll && <NeedsAttention />}
              <Section title="Endpoints">
                <div class="fields">
                  <div>
                    <label for="filter">Filter</label>
                    <input
                      id="filter"
                      type="search"
                      value={text}
                      onInput={(event) => change({ filter: event.currentTarget.value }, 'replace')}
                    />
                  </div>
                </div>
                <Table
                  label="Endpoints"
                  rows={shown}
                  id={({ id }) => id}
                  empty={endpoints.length === 0 ? 'No endpoints yet. Deploy a folder: capstan deploy <folder>' : 'No endpoint matches.'}
                  columns={[
                    { title: 'Name', cell: ({ id, name }) => <Link href={`/endpoints/${encodeURIComponent(id)}`}>{visible(name)}</Link> },
                    { title: 'Environment', cell: ({ environment }) => <Text of={environment} /> },
                    { title: 'Kind', cell: ({ kind }) => (kind === 'QUEUE' ? 'queue' : 'load-balanced') },
                    { title: 'State', cell: (row) => <Badge state={stateOf(row)} /> },
                    { title: 'In queue', isNumber: true, cell: ({ queue }) => queue.inQueue },
                    { title: 'In progress', isNumber: true, cell: ({ queue }) => queue.inProgress },
                    {
                      title: 'Last hour',
                      cell: ({ id, kind }) => <ActivityLine line={lines?.get(id)} noun={kind === 'QUEUE' ? 'jobs' : 'requests'} />,
                    },
                    { title: 'Workers', isNumber: true, cell: ({ workers }) => `${workers.total} of ${workers.max}` },
                  ]}
                />
              </Section>
              {coversAll && <NodesSummary endpoints={endpoints} />}
            </>
          );
        }}
      </Loaded>
    </Page>
  );
}
