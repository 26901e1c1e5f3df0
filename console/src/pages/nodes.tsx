import type { JSX } from 'preact';
import { Link } from 'wouter-preact';

import { useAction, useLive } from '../api/live.ts';
import { graphql } from '../api/request.ts';
import { useOperatorRefusal } from '../api/session.ts';
import { bytes, percent } from '../ui/format.ts';
import { Badge, ConfirmButton, Facts, Failure, Loaded, Page, Section, Table, Text } from '../ui/parts.tsx';
import { visible } from '../ui/plain-text.ts';
import { DeviceHistory } from './device-history.tsx';
import { DEVICE_FIELDS, Devices, USERS_FIELDS, type Device, type DeviceUsers } from './devices.tsx';
import { WholeAccount } from './whole-account.tsx';

interface Node {
  readonly id: string;
  readonly name: string;
  readonly connected: boolean;
  readonly draining: boolean;
  readonly workers: number;
  readonly jobs: number;
  readonly cpus: number | null;
  readonly cpuPercent: number | null;
  readonly memoryBytes: number | null;
  readonly memoryAvailableBytes: number | null;
  readonly diskAvailableBytes: number | null;
  readonly agentVersion: string | null;
  readonly deviceProblem: string | null;
  readonly devices: readonly Device[];
  readonly isolation: {
    readonly processes: string;
    readonly containers: string | null;
    readonly processNetworks: readonly string[];
    readonly missing: readonly { readonly without: string; readonly reason: string; readonly remedy: string }[];
  } | null;
}

const QUERY = `{
  nodes {
    id name connected draining workers jobs cpus cpuPercent memoryBytes memoryAvailableBytes diskAvailableBytes agentVersion deviceProblem
    devices { ${DEVICE_FIELDS} }
    isolation { processes containers processNetworks missing { without reason remedy } }
  }
  ${USERS_FIELDS}
}`;

export function NodesPage(): JSX.Element {
  return (
    <Page title="Nodes">
      <WholeAccount>
        <Nodes />
      </WholeAccount>
    </Page>
  );
}

function Nodes(): JSX.Element {
  const query = useLive(['nodes'], (signal) => graphql<{ nodes: readonly Node[] } & DeviceUsers>(QUERY, {}, signal), 15_000);
  return (
    <>
      <Loaded query={query}>
        {({ nodes, workers, endpoints }) =>
          nodes.length === 0 ? (
            <p class="muted">No nodes, or none that runs workers of your account. Keys with the scope OPERATOR see all of them.</p>
          ) : (
            nodes.map((node) => <NodeSection key={node.id} node={node} users={{ workers, endpoints }} />)
          )
        }
      </Loaded>
    </>
  );
}

export function stateOf({ connected, draining }: Pick<Node, 'connected' | 'draining'>): string {
  if (!connected) return 'disconnected';
  return draining ? 'draining' : 'connected';
}

function NodeSection({ node, users }: { node: Node; users: DeviceUsers }): JSX.Element {
  const refusal = useOperatorRefusal();
  const change = useAction((verb: 'drainNode' | 'resumeNode' | 'removeNode') =>
    graphql(`mutation ($id: ID!) { ${verb}(id: $id)${verb === 'removeNode' ? '' : ' { id }'} }`, { id: node.id }),
  );
  return (
    <Section title={node.name}>
      <div class="panel">
        <Facts
          of={[
            ['State', <Badge state={stateOf(node)} key="s" />],
            ['Workers', String(node.workers)],
            ['Jobs', String(node.jobs)],
            ['CPUs', processors(node)],
            ['Memory', memory(node)],
            // What the key may not see is not listed.
            ...(node.diskAvailableBytes === null ? [] : [['Free disk', bytes(node.diskAvailableBytes)] as const]),
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
      {refusal === undefined && node.devices.length > 0 && <DeviceHistory node={node} />}
    </Section>
  );
}

function processors({ cpus, cpuPercent }: Node): string {
  if (cpus === null) return '–';
  return cpuPercent === null ? String(cpus) : `${cpus}, ${Math.round(cpuPercent)} % busy`;
}

function memory({ memoryBytes: all, memoryAvailableBytes: free }: Node): string {
  if (all === null) return '–';
  return free === null ? bytes(all) : `${bytes(all - free)} of ${bytes(all)} (${percent(all - free, all)})`;
}

/** The workers of a node that the key may see, with links to their endpoints. */
function Workers({ node, users }: { node: Node; users: DeviceUsers }): JSX.Element {
  const names = new Map(users.endpoints.map(({ id, name }) => [id, name]));
  return (
    <Table
      label={`Workers of ${node.name}`}
      rows={users.workers.filter((worker) => worker.node === node.id)}
      id={({ id }) => id}
      empty="It runs no workers of your account."
      columns={[
        { title: 'Worker', isId: true, cell: ({ id }) => <Text of={id} /> },
        {
          title: 'Endpoint',
          cell: ({ endpoint }) => (
            <Link href={`/endpoints/${encodeURIComponent(endpoint)}`}>{visible(names.get(endpoint) ?? endpoint)}</Link>
          ),
        },
        { title: 'State', cell: ({ state }) => <Badge state={state} /> },
        { title: 'GPUs', isNumber: true, cell: ({ devices }) => devices.length },
      ]}
    />
  );
}

function isolationText({ isolation }: Node): string {
  if (isolation === null) return 'not reported';
  const { processes, containers, processNetworks } = isolation;
  const network = processNetworks.includes('outbound') ? '' : ', host network';
  return `${processes}${network}${containers === null ? '' : `; containers: ${containers}`}`;
}
