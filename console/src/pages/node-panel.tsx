import type { ComponentChildren, JSX } from 'preact';
import { Link } from 'wouter-preact';

import { DRAIN_NODE, REMOVE_NODE, RESUME_NODE, type NodeData } from '../api/graphql/gen/operations.ts';
import { useAction } from '../api/live.ts';
import { graphql } from '../api/request.ts';
import { useOperatorRefusal } from '../api/session.ts';
import { bytes, percent } from '../ui/format.ts';
import { Badge, ConfirmButton, Facts, Failure, Section, SinceTime, Table, Text } from '../ui/parts.tsx';
import { visible } from '../ui/plain-text.ts';
import { ActivityLink } from './activity.tsx';
import { Devices, type DeviceUsers } from './devices.tsx';
import { DeviceLinks, WorkerLink, WorkerState } from './fleet-names.tsx';

export type { NodeData };

export function stateOf({ connected, draining }: Pick<NodeData, 'connected' | 'draining'>): string {
  if (!connected) return 'disconnected';
  return draining ? 'draining' : 'connected';
}

const CHANGES = { drainNode: DRAIN_NODE, resumeNode: RESUME_NODE, removeNode: REMOVE_NODE };

interface NodePanelProps {
  readonly node: NodeData;
  readonly users: DeviceUsers;
  /** Its title leads to the node's own page. */
  readonly hasLink?: boolean;
}

/** State, workers and GPUs of a node, and what an operator may do with it. */
export function NodePanel({ node, users, hasLink = false }: NodePanelProps): JSX.Element {
  const refusal = useOperatorRefusal();
  const change = useAction((verb: 'drainNode' | 'resumeNode' | 'removeNode') =>
    graphql<unknown, { readonly id: string }>(CHANGES[verb], { id: node.id }),
  );
  return (
    <Section title={hasLink ? <Link href={`/nodes/${encodeURIComponent(node.id)}`}>{visible(node.name)}</Link> : 'State'}>
      <div class="panel">
        <Facts
          of={[
            ['State', <Badge state={stateOf(node)} key="s" />],
            ...(node.lastSeenAt === null || node.connected ? [] : [['Last seen', <SinceTime at={node.lastSeenAt} key="l" />] as const]),
            ...(node.draining ? [['Maintenance', 'gets no new work'] as const] : []),
            ['Workers', String(node.workers)],
            ['Jobs', String(node.jobs)],
            ['CPUs', lastKnown(node, processors(node))],
            ['Memory', lastKnown(node, memory(node))],
            // What the key may not see is not listed.
            ...(node.diskAvailableBytes === null ? [] : [['Free disk', lastKnown(node, bytes(node.diskAvailableBytes))] as const]),
            ['Isolation', <Text of={isolationText(node)} key="i" />],
            ...(node.agentVersion === null ? [] : [['Agent', <Text of={node.agentVersion} key="a" />] as const]),
          ]}
        />
        {(node.isolation?.missing ?? []).map(({ without, reason, remedy }) => (
          <p class="muted" key={without}>
            Without {without}: <Text of={`${reason}${remedy === '' ? '' : ` – ${remedy}`}`} />
          </p>
        ))}
        <div class="actions">
          {refusal === undefined && <ActivityLink of={{ object: node.name }} />}
          {node.draining ? (
            <ConfirmButton
              label="Resume"
              explain={
                <p>
                  <Text of={node.name} /> gets new work again, at once. Workers that were replaced elsewhere stay there.
                </p>
              }
              refusal={refusal}
              isBusy={change.isPending}
              onConfirm={() => change.mutate('resumeNode')}
            />
          ) : (
            <ConfirmButton
              label="Drain"
              explain={
                <p>
                  <Text of={node.name} /> gets no new work. Its {node.workers} workers finish what they hold ({node.jobs} jobs) and are
                  replaced on other nodes.
                </p>
              }
              refusal={refusal}
              isBusy={change.isPending}
              onConfirm={() => change.mutate('drainNode')}
            />
          )}
          <ConfirmButton
            label="Remove"
            explain={
              <p>
                The identity of <Text of={node.name} /> is revoked: its agent cannot connect again without a new join token.
              </p>
            }
            refusal={refusal ?? (node.workers > 0 ? 'Drain it first: it has workers.' : undefined)}
            isBusy={change.isPending}
            onConfirm={() => change.mutate('removeNode')}
          />
        </div>
        <Failure error={change.error} />
      </div>
      {node.deviceProblem !== null && (
        <p class="failure">
          <Text of={node.deviceProblem} />
        </p>
      )}
      <Workers node={node} users={users} />
      {node.devices.length > 0 && <Devices label={`GPUs of ${node.name}`} nodes={[node]} users={users} />}
    </Section>
  );
}

/** A figure that a node reported: grey where the node is away, since nobody knows whether it still holds. */
function lastKnown({ connected }: NodeData, figure: string): ComponentChildren {
  return connected ? figure : <span class="stale">{figure}</span>;
}

function processors({ cpus, cpuPercent }: NodeData): string {
  if (cpus === null) return '–';
  return cpuPercent === null ? String(cpus) : `${cpus}, ${Math.round(cpuPercent)} % busy`;
}

function memory({ memoryBytes: all, memoryAvailableBytes: free }: NodeData): string {
  if (all === null) return '–';
  return free === null ? bytes(all) : `${bytes(all - free)} of ${bytes(all)} (${percent(all - free, all)})`;
}

/** The workers of a node that the key may see, with links to their endpoints. */
function Workers({ node, users }: { node: NodeData; users: DeviceUsers }): JSX.Element {
  const names = new Map(users.endpoints.map(({ id, name }) => [id, name]));
  return (
    <Table
      label={`Workers of ${node.name}`}
      rows={users.workers.filter((worker) => worker.node === node.id)}
      id={({ id }) => id}
      empty="It runs no workers of your account."
      columns={[
        { title: 'Worker', isId: true, cell: ({ id, endpoint }) => <WorkerLink endpoint={endpoint} id={id} /> },
        {
          title: 'Endpoint',
          cell: ({ endpoint }) => (
            <Link href={`/endpoints/${encodeURIComponent(endpoint)}`}>{visible(names.get(endpoint) ?? endpoint)}</Link>
          ),
        },
        { title: 'State', cell: ({ state }) => <WorkerState node={node} state={state} /> },
        { title: 'GPUs', cell: ({ devices }) => <DeviceLinks node={node.id} devices={devices} /> },
      ]}
    />
  );
}

function isolationText({ isolation }: NodeData): string {
  if (isolation === null) return 'not reported';
  const { processes, containers, processNetworks } = isolation;
  const network = processNetworks.includes('outbound') ? '' : ', host network';
  return `${processes}${network}${containers === null ? '' : `; containers: ${containers}`}`;
}
