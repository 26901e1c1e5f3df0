import type { JSX } from 'preact';
import { Link } from 'wouter-preact';

import { LIST_ENDPOINTS } from '../api/graphql/gen/operations.ts';
import { useLive } from '../api/live.ts';
import { graphql } from '../api/request.ts';
import { useWholeAccount } from '../api/session.ts';
import { duration } from '../ui/format.ts';
import { Badge, Loaded, Page, Section, Table, Text, type Column } from '../ui/parts.tsx';
import { visible } from '../ui/plain-text.ts';
import { useUrlState } from '../ui/url-state.ts';
import { ActivityLine, useActivityLines } from './activity-lines.tsx';
import { NeedsAttention } from './attention.tsx';
import { direction, figuresOf, inOrder, stateOf, type ColumnName } from './endpoint-order.ts';
import { NodesSummary } from './nodes-summary.tsx';

/** What needs attention, endpoints of all environments, nodes. */
export function OverviewPage(): JSX.Element {
  const coversAll = useWholeAccount();
  const [{ filter: text, sort }, change] = useUrlState({ filter: '', sort: '' });
  const order = (name: ColumnName): NonNullable<Column<unknown>['order']> => {
    const { current, next } = direction(sort, name);
    return { current, onChange: () => change({ sort: next }) };
  };
  const query = useLive(['endpoints'], (signal) => graphql(LIST_ENDPOINTS, {}, signal));
  const lines = useActivityLines(query.data?.endpoints ?? []);
  return (
    <Page title="Overview">
      <Loaded query={query}>
        {({ endpoints }) => {
          const found = endpoints.filter(({ id, name, environment }) =>
            `${id} ${name} ${environment}`.toLowerCase().includes(text.toLowerCase()),
          );
          const figures = (id: string): ReturnType<typeof figuresOf> | undefined => {
            const line = lines?.get(id);
            return line === undefined ? undefined : figuresOf(line);
          };
          const ranked = inOrder(
            found.map((row) => ({ row, figures: figures(row.id) })),
            sort,
          );
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
                  rows={ranked}
                  id={({ row }) => row.id}
                  empty={endpoints.length === 0 ? 'No endpoints yet. Deploy a folder: capstan deploy <folder>' : 'No endpoint matches.'}
                  columns={[
                    {
                      title: 'Name',
                      order: order('name'),
                      cell: ({ row: { id, name } }) => <Link href={`/endpoints/${encodeURIComponent(id)}`}>{visible(name)}</Link>,
                    },
                    { title: 'Environment', cell: ({ row }) => <Text of={row.environment} /> },
                    { title: 'Kind', cell: ({ row }) => (row.kind === 'QUEUE' ? 'queue' : 'load-balanced') },
                    { title: 'State', cell: ({ row }) => <Badge state={stateOf(row)} /> },
                    { title: 'In queue', isNumber: true, order: order('queue'), cell: ({ row }) => row.queue.inQueue },
                    { title: 'In progress', isNumber: true, cell: ({ row }) => row.queue.inProgress },
                    {
                      title: 'Last hour',
                      cell: ({ row: { id, kind } }) => <ActivityLine line={lines?.get(id)} noun={kind === 'QUEUE' ? 'jobs' : 'requests'} />,
                    },
                    {
                      title: 'A minute',
                      isNumber: true,
                      order: order('rate'),
                      cell: ({ figures: known }) => (known === undefined ? '–' : Number(known.perMinute.toPrecision(2))),
                    },
                    {
                      title: 'Errors',
                      isNumber: true,
                      order: order('errors'),
                      cell: ({ figures: known }) =>
                        known?.errorRate === undefined ? '–' : `${Number((100 * known.errorRate).toFixed(1))} %`,
                    },
                    { title: 'p95 delay', isNumber: true, order: order('delay'), cell: ({ figures: known }) => duration(known?.p95Delay) },
                    { title: 'Workers', isNumber: true, cell: ({ row }) => `${row.workers.total} of ${row.workers.max}` },
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
