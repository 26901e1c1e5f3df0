import type { Device, DeviceUser, NamedEndpoint } from '../api/graphql/gen/operations.ts';
import type { ComponentChildren, JSX } from 'preact';
import { Link } from 'wouter-preact';

import { bytes } from '../ui/format.ts';
import { Badge, LastSeen, Table, Text } from '../ui/parts.tsx';
import { visible } from '../ui/plain-text.ts';
import { WorkerLink } from './fleet-names.tsx';

export type { Device };

/** Who may use devices: workers, and the names of their endpoints as far as the key sees them. */
export interface DeviceUsers {
  readonly workers: readonly DeviceUser[];
  readonly endpoints: readonly NamedEndpoint[];
}

interface NodeOfDevices {
  readonly id: string;
  readonly name: string;
  readonly connected: boolean;
  readonly lastSeenAt: string | null;
  readonly devices: readonly Device[];
}

/** The GPUs of these nodes, and who uses them. What a node that is away last reported is grey: nobody knows whether it still holds. */
export function Devices({ label, nodes, users }: { label: string; nodes: readonly NodeOfDevices[]; users: DeviceUsers }): JSX.Element {
  const names = new Map(users.endpoints.map(({ id, name }) => [id, name]));
  const rows = nodes.flatMap(({ id, name, connected, lastSeenAt, devices }) =>
    devices.map((device, index) => ({
      ...{ ...device, connected, lastSeenAt },
      key: `${id} ${index}`,
      node: name,
      user: userOf(device, { id, connected }),
    })),
  );
  function userOf({ uuid, problem }: Device, { id: node, connected }: Pick<NodeOfDevices, 'id' | 'connected'>): ComponentChildren {
    if (problem !== null) return <Text of={problem} />;
    if (uuid === '') return '–';
    const found = users.workers.filter((worker) => worker.node === node && worker.devices.includes(uuid));
    if (found.length === 0) return connected ? 'free' : '–';
    return found.map(({ endpoint, id }, place) => (
      <span key={id}>
        {place > 0 && ', '}
        <Link href={`/endpoints/${encodeURIComponent(endpoint)}`}>{visible(names.get(endpoint) ?? endpoint)}</Link> (
        <WorkerLink endpoint={endpoint} id={id} />)
      </span>
    ));
  }
  return (
    <Table
      label={label}
      rows={rows}
      id={({ key }) => key}
      isStale={({ connected }) => !connected}
      empty="No GPUs."
      columns={[
        ...(nodes.length > 1 ? [{ title: 'Node', cell: ({ node }: { node: string }) => <Text of={node} /> }] : []),
        { title: 'GPU', cell: ({ model }) => <Text of={model} /> },
        {
          title: 'State',
          cell: ({ healthy, connected, lastSeenAt }) =>
            connected ? <Badge state={healthy ? 'healthy' : 'unhealthy'} /> : <LastSeen at={lastSeenAt} />,
        },
        {
          title: 'Memory',
          isNumber: true,
          cell: ({ memoryBytes, memoryUsedBytes: used }) =>
            used === null ? bytes(memoryBytes) : `${bytes(used)} of ${bytes(memoryBytes)}`,
        },
        { title: 'Busy', isNumber: true, cell: ({ utilizationPercent: busy }) => (busy === null ? '–' : `${Math.round(busy)} %`) },
        { title: 'Temperature', isNumber: true, cell: ({ temperatureCelsius: heat }) => (heat === null ? '–' : `${heat} °C`) },
        { title: 'Used by', cell: ({ user }) => user },
      ]}
    />
  );
}
