import type { JSX } from 'preact';

import { LIST_NODES } from '../api/graphql/gen/operations.ts';
import { useLive } from '../api/live.ts';
import { graphql } from '../api/request.ts';
import { Loaded, Page } from '../ui/parts.tsx';
import { NodePanel } from './node-panel.tsx';
import { WholeAccount } from './whole-account.tsx';

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
  const query = useLive(['nodes'], (signal) => graphql(LIST_NODES, {}, signal), 15_000);
  return (
    <>
      <Loaded query={query}>
        {({ nodes, workers, endpoints }) =>
          nodes.length === 0 ? (
            <p class="muted">No nodes, or none that runs workers of your account. Keys with the scope OPERATOR see all of them.</p>
          ) : (
            nodes.map((node) => <NodePanel key={node.id} node={node} users={{ workers, endpoints }} hasLink />)
          )
        }
      </Loaded>
    </>
  );
}
