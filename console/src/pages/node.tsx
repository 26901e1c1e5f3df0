/** One node: its state, its workers, and the history of its GPUs. */
import type { JSX } from 'preact';
import { Link, useParams } from 'wouter-preact';

import { GET_NODE } from '../api/graphql/gen/operations.ts';
import { useLive } from '../api/live.ts';
import { graphql } from '../api/request.ts';
import { useOperatorRefusal } from '../api/session.ts';
import { Loaded, Page } from '../ui/parts.tsx';
import { NodeHistory } from './node-history.tsx';
import { NodePanel } from './node-panel.tsx';
import { WholeAccount } from './whole-account.tsx';

/** No stream announces what nodes report, ms. */
const POLL_MS = 15_000;

export function NodePage(): JSX.Element {
  const { node: id } = useParams<{ node: string }>();
  return (
    <WholeAccount>
      <WholeNode key={id} id={id} />
    </WholeAccount>
  );
}

function WholeNode({ id }: { id: string }): JSX.Element {
  const seesHistory = useOperatorRefusal() === undefined;
  const query = useLive(['node', id], (signal) => graphql(GET_NODE, { id }, signal), POLL_MS);
  return (
    <Page title={query.data?.node?.name ?? 'Node'}>
      <p>
        <Link href="/nodes">All nodes</Link>
      </p>
      <Loaded query={query}>
        {({ node, workers, endpoints }) =>
          node === null ? (
            <p>There is no node with this ID, or it runs no workers of your account.</p>
          ) : (
            <>
              <NodePanel node={node} users={{ workers, endpoints }} />
              {seesHistory && node.devices.some(({ uuid }) => uuid !== '') && <NodeHistory node={node} />}
            </>
          )
        }
      </Loaded>
    </Page>
  );
}
