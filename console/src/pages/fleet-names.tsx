/** Names of nodes, devices and API keys in the place of their ids, with links to the pages about them. */
import type { JSX } from 'preact';
import { Link } from 'wouter-preact';

import { LIST_KEYS, LIST_NODE_NAMES, type NamedNode } from '../api/graphql/gen/operations.ts';
import { useLive } from '../api/live.ts';
import { graphql } from '../api/request.ts';
import { useWholeAccount } from '../api/session.ts';
import { Badge, LastSeen, Mono, Text } from '../ui/parts.tsx';
import { visible } from '../ui/plain-text.ts';

const POLL_MS = 60_000;
const NONE: ReadonlyMap<string, NamedNode> = new Map();

/** The nodes that the key sees, by id. */
function useNodes(): ReadonlyMap<string, NamedNode> {
  const coversAll = useWholeAccount();
  const { data } = useLive(
    ['node-names'],
    async (signal) => (coversAll ? byId((await graphql(LIST_NODE_NAMES, {}, signal)).nodes) : NONE),
    POLL_MS,
  );
  return data ?? NONE;
}

function byId(nodes: readonly NamedNode[]): ReadonlyMap<string, NamedNode> {
  return new Map(nodes.map((node) => [node.id, node]));
}

/** The name of a node with a link to its page; its id where the key does not see it, and where it was removed. */
export function NodeLink({ id }: { id: string | null }): JSX.Element {
  const node = useNodes().get(id ?? '');
  if (node === undefined) return <Text of={id ?? '–'} />;
  return <Link href={`/nodes/${encodeURIComponent(node.id)}`}>{visible(node.name)}</Link>;
}

/** The state of a worker; of one whose node is away nobody knows it. */
export function WorkerState({
  node,
  state,
}: {
  node: Pick<NamedNode, 'connected' | 'lastSeenAt'> | undefined;
  state: string;
}): JSX.Element {
  return node?.connected === false ? <LastSeen at={node.lastSeenAt} /> : <Badge state={state} />;
}

/** The same by the id of its node. */
export function WorkerStateOn({ node, state }: { node: string; state: string }): JSX.Element {
  return <WorkerState node={useNodes().get(node)} state={state} />;
}

/** The devices of a worker by their models, with links to their history. */
export function DeviceLinks({ node: id, devices }: { node: string; devices: readonly string[] }): JSX.Element {
  const node = useNodes().get(id);
  if (devices.length === 0) return <>–</>;
  return (
    <>
      {devices.map((uuid, place) => (
        <span key={uuid} title={uuid}>
          {place > 0 && ', '}
          <DeviceLink node={node} uuid={uuid} />
        </span>
      ))}
    </>
  );
}

function DeviceLink({ node, uuid }: { node: NamedNode | undefined; uuid: string }): JSX.Element {
  const index = node?.devices.findIndex((device) => device.uuid === uuid) ?? -1;
  if (node === undefined || index === -1) return <Text of={uuid} />;
  const name = `${index} ${node.devices[index]?.model ?? ''}`;
  return <Link href={`/nodes/${encodeURIComponent(node.id)}?gpu=${encodeURIComponent(uuid)}`}>{visible(name)}</Link>;
}

/** The id of a worker with a link to what it printed. */
export function WorkerLink({ endpoint, id }: { endpoint: string; id: string }): JSX.Element {
  return (
    <Link href={`/endpoints/${encodeURIComponent(endpoint)}/logs?worker=${encodeURIComponent(id)}`}>
      <code>{visible(id)}</code>
    </Link>
  );
}

/** The name of an API key with a link to it; its id where the key of this session lists no keys, and where it was revoked. */
export function KeyLink({ id }: { id: string }): JSX.Element {
  const coversAll = useWholeAccount();
  const { data } = useLive(['key-names'], async (signal) => (coversAll ? (await graphql(LIST_KEYS, {}, signal)).apiKeys : []), POLL_MS);
  const key = data?.find((each) => each.id === id);
  if (key === undefined) return <Mono of={id} />;
  return (
    <Link href={`/keys?filter=${encodeURIComponent(key.id)}`} title={`key ${visible(key.prefix)}…`}>
      {visible(key.name)}
    </Link>
  );
}
