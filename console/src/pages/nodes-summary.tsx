import type { JSX } from 'preact';
import { Link } from 'wouter-preact';

import { SUMMARIZE_NODES } from '../api/graphql/gen/operations.ts';
import { useLive } from '../api/live.ts';
import { graphql } from '../api/request.ts';
import { percent } from '../ui/format.ts';
import { Badge, LastSeen, Loaded, Section, Table } from '../ui/parts.tsx';
import { visible } from '../ui/plain-text.ts';
import { Devices, type DeviceUsers } from './devices.tsx';
import { stateOf } from './node-panel.tsx';

const MAX = 100;

/** How often figures of nodes are read again, ms: no stream announces them. */
const POLL_MS = 60_000;

/** The nodes and their GPUs, in two tables. */
export function NodesSummary({ endpoints }: Pick<DeviceUsers, 'endpoints'>): JSX.Element {
  const query = useLive(['nodes-summary'], (signal) => graphql(SUMMARIZE_NODES, {}, signal), POLL_MS);
  return (
    <Section title="Nodes">
      <Loaded query={query}>
        {({ nodes, workers }) => (
          <>
            <Table
              label="Nodes"
              rows={nodes}
              id={({ id }) => id}
              isStale={({ connected }) => !connected}
              empty="No nodes, or none that runs workers of your account."
              columns={[
                { title: 'Name', cell: ({ id, name }) => <Link href={`/nodes/${encodeURIComponent(id)}`}>{visible(name)}</Link> },
                {
                  title: 'State',
                  cell: (node) => (
                    <>
                      <Badge state={stateOf(node)} /> {!node.connected && node.lastSeenAt !== null && <LastSeen at={node.lastSeenAt} />}
                    </>
                  ),
                },
                { title: 'Workers', isNumber: true, cell: ({ workers }) => workers },
                { title: 'Jobs', isNumber: true, cell: ({ jobs }) => jobs },
                { title: 'CPU', isNumber: true, cell: ({ cpuPercent }) => (cpuPercent === null ? '–' : `${Math.round(cpuPercent)} %`) },
                {
                  title: 'Memory',
                  isNumber: true,
                  cell: ({ memoryBytes: all, memoryAvailableBytes: free }) =>
                    all === null || free === null ? '–' : percent(all - free, all),
                },
                { title: 'GPUs', isNumber: true, cell: ({ devices }) => devices.length },
              ]}
            />
            {nodes.length === MAX && <p class="muted">The first {MAX} nodes.</p>}
            {nodes.some(({ devices }) => devices.length > 0) && <Devices label="GPUs" nodes={nodes} users={{ workers, endpoints }} />}
          </>
        )}
      </Loaded>
    </Section>
  );
}
