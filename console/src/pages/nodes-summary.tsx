import type { JSX } from 'preact';
import { Link } from 'wouter-preact';

import { useLive } from '../api/live.ts';
import { graphql } from '../api/request.ts';
import { percent } from '../ui/format.ts';
import { Badge, Loaded, Section, Table } from '../ui/parts.tsx';
import { visible } from '../ui/plain-text.ts';
import { DEVICE_FIELDS, Devices, USERS_FIELDS, type Device, type DeviceUsers } from './devices.tsx';
import { stateOf } from './nodes.tsx';

interface Node {
  readonly id: string;
  readonly name: string;
  readonly connected: boolean;
  readonly draining: boolean;
  readonly workers: number;
  readonly jobs: number;
  readonly cpuPercent: number;
  readonly memoryBytes: number;
  readonly memoryAvailableBytes: number;
  readonly devices: readonly Device[];
}

const QUERY = `{
  nodes(limit: 100) { id name connected draining workers jobs cpuPercent memoryBytes memoryAvailableBytes devices { ${DEVICE_FIELDS} } }
  ${USERS_FIELDS}
}`;
const MOST = 100;

/** The nodes and their GPUs, in two tables. */
export function NodesSummary(): JSX.Element {
  const query = useLive(['nodes-summary'], (signal) => graphql<{ nodes: readonly Node[] } & DeviceUsers>(QUERY, {}, signal), 30_000);
  return (
    <Section title="Nodes">
      <Loaded query={query}>
        {({ nodes, ...users }) => (
          <>
            <Table
              label="Nodes"
              rows={nodes}
              id={({ id }) => id}
              empty="No nodes, or none that runs workers of your account."
              columns={[
                { title: 'Name', cell: ({ name }) => <Link href="/nodes">{visible(name)}</Link> },
                { title: 'State', cell: (node) => <Badge state={stateOf(node)} /> },
                { title: 'Workers', isNumber: true, cell: ({ workers }) => workers },
                { title: 'Jobs', isNumber: true, cell: ({ jobs }) => jobs },
                { title: 'CPU', isNumber: true, cell: ({ cpuPercent }) => `${Math.round(cpuPercent)} %` },
                {
                  title: 'Memory',
                  isNumber: true,
                  cell: ({ memoryBytes, memoryAvailableBytes: free }) => percent(memoryBytes - free, memoryBytes),
                },
                { title: 'GPUs', isNumber: true, cell: ({ devices }) => devices.length },
              ]}
            />
            {nodes.length === MOST && <p class="muted">The first {MOST} nodes.</p>}
            {nodes.some(({ devices }) => devices.length > 0) && <Devices label="GPUs" nodes={nodes} users={users} />}
          </>
        )}
      </Loaded>
    </Section>
  );
}
