import type { JSX } from 'preact';

import { useAction, useLive } from '../api/live.ts';
import { graphql } from '../api/request.ts';
import { useOperatorRefusal } from '../api/session.ts';
import { bytes, percent } from '../ui/format.ts';
import { ActionButton, Badge, ConfirmButton, Facts, Failure, Loaded, Page, Section, Table, Text } from '../ui/parts.tsx';

interface Device {
  readonly uuid: string;
  readonly model: string;
  readonly memoryBytes: number;
  readonly healthy: boolean;
  readonly problem: string | null;
  readonly temperatureCelsius: number | null;
  readonly utilizationPercent: number | null;
}

interface Node {
  readonly id: string;
  readonly name: string;
  readonly connected: boolean;
  readonly draining: boolean;
  readonly workers: number;
  readonly jobs: number;
  readonly cpus: number;
  readonly cpuPercent: number;
  readonly memoryBytes: number;
  readonly memoryAvailableBytes: number;
  readonly diskAvailableBytes: number;
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

interface Worker {
  readonly id: string;
  readonly node: string;
  readonly endpoint: string;
  readonly devices: readonly string[];
}

const QUERY = `{
  nodes {
    id name connected draining workers jobs cpus cpuPercent memoryBytes memoryAvailableBytes diskAvailableBytes agentVersion deviceProblem
    devices { uuid model memoryBytes healthy problem temperatureCelsius utilizationPercent }
    isolation { processes containers processNetworks missing { without reason remedy } }
  }
  workers { id node endpoint devices }
}`;

export function NodesPage(): JSX.Element {
  const query = useLive(['nodes'], (signal) => graphql<{ nodes: readonly Node[]; workers: readonly Worker[] }>(QUERY, {}, signal), 5_000);
  return (
    <Page title="Nodes">
      <Loaded query={query}>
        {({ nodes, workers }) =>
          nodes.length === 0 ? (
            <p class="muted">No nodes, or none that runs workers of your account. Keys with the scope OPERATOR see all of them.</p>
          ) : (
            nodes.map((node) => <NodeSection key={node.id} node={node} workers={workers.filter(({ node: of }) => of === node.id)} />)
          )
        }
      </Loaded>
    </Page>
  );
}

function stateOf({ connected, draining }: Node): string {
  if (!connected) return 'disconnected';
  return draining ? 'draining' : 'connected';
}

function NodeSection({ node, workers }: { node: Node; workers: readonly Worker[] }): JSX.Element {
  const refusal = useOperatorRefusal();
  const change = useAction((verb: 'drainNode' | 'resumeNode' | 'removeNode') =>
    graphql(`mutation ($id: ID!) { ${verb}(id: $id)${verb === 'removeNode' ? '' : ' { id }'} }`, { id: node.id }),
  );
  const used = node.memoryBytes - node.memoryAvailableBytes;
  return (
    <Section title={node.name}>
      <div class="panel">
        <Facts
          of={[
            ['State', <Badge state={stateOf(node)} key="s" />],
            ['Workers', String(node.workers)],
            ['Jobs', String(node.jobs)],
            ['CPUs', `${node.cpus}, ${Math.round(node.cpuPercent)} % busy`],
            ['Memory', `${bytes(used)} of ${bytes(node.memoryBytes)} (${percent(used, node.memoryBytes)})`],
            ['Free disk', bytes(node.diskAvailableBytes)],
            ['Isolation', <Text of={isolationText(node)} key="i" />],
            ['Agent', <Text of={node.agentVersion ?? '–'} key="a" />],
          ]}
        />
        {(node.isolation?.missing ?? []).map(({ without, reason, remedy }) => (
          <p class="muted" key={without}>
            Without {without}: <Text of={`${reason}${remedy === '' ? '' : ` – ${remedy}`}`} />
          </p>
        ))}
        <div class="actions">
          {node.draining ? (
            <ActionButton refusal={refusal} isBusy={change.isPending} onClick={() => change.mutate('resumeNode')}>
              Resume
            </ActionButton>
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
      {node.devices.length > 0 && (
        <Table
          label={`GPUs of ${node.name}`}
          rows={node.devices}
          id={({ uuid }) => uuid}
          empty=""
          columns={[
            { title: 'GPU', cell: ({ model }) => <Text of={model} /> },
            { title: 'State', cell: ({ healthy }) => <Badge state={healthy ? 'healthy' : 'unhealthy'} /> },
            { title: 'Memory', isNumber: true, cell: ({ memoryBytes }) => bytes(memoryBytes) },
            { title: 'Busy', isNumber: true, cell: ({ utilizationPercent: busy }) => (busy === null ? '–' : `${Math.round(busy)} %`) },
            { title: 'Temperature', isNumber: true, cell: ({ temperatureCelsius: heat }) => (heat === null ? '–' : `${heat} °C`) },
            {
              title: 'Used by',
              cell: ({ uuid, problem }) => (
                <Text
                  of={
                    problem ??
                    (workers
                      .filter(({ devices }) => devices.includes(uuid))
                      .map(({ endpoint, id }) => `${endpoint} (${id})`)
                      .join(', ') ||
                      'free')
                  }
                />
              ),
            },
          ]}
        />
      )}
    </Section>
  );
}

function isolationText({ isolation }: Node): string {
  if (isolation === null) return 'not reported';
  const { processes, containers, processNetworks } = isolation;
  const network = processNetworks.includes('outbound') ? '' : ', host network';
  return `${processes}${network}${containers === null ? '' : `; containers: ${containers}`}`;
}
