import type { JSX } from 'preact';

import { useAction, useLive } from '../../api/live.ts';
import { graphql } from '../../api/request.ts';
import { useWriteRefusal } from '../../api/session.ts';
import { bytes, time } from '../../ui/format.ts';
import { Badge, ConfirmButton, Failure, Loaded, Mono, Table, Text } from '../../ui/parts.tsx';
import type { EndpointData } from './query.ts';

interface Build {
  readonly digest: string;
  readonly size: number;
  readonly deployedAt: string;
  readonly functions: readonly string[];
}

const QUERY = `query ($endpoint: String!, $environment: String!) {
  builds(endpoint: $endpoint, environment: $environment) { digest size deployedAt functions }
}`;
const DIGITS = 12;

/** The builds that the endpoint can return to. */
export function Releases({ endpoint }: { endpoint: EndpointData }): JSX.Element {
  const refusal = useWriteRefusal();
  const query = useLive(['builds', endpoint.id], (signal) =>
    graphql<{ builds: readonly Build[] }>(QUERY, { endpoint: endpoint.name, environment: endpoint.environment }, signal),
  );
  const rollback = useAction((build: string) =>
    graphql(
      'mutation ($environment: String!, $endpoint: ID!, $build: String!) { rollback(environment: $environment, endpoint: $endpoint, build: $build) { environment } }',
      { environment: endpoint.environment, endpoint: endpoint.id, build },
    ),
  );
  return (
    <>
      <Failure error={rollback.error} />
      <Loaded query={query}>
        {({ builds }) => (
          <Table
            label="Builds"
            rows={builds}
            id={({ digest, deployedAt }) => digest + deployedAt}
            empty="No build: its own image serves it."
            columns={[
              { title: 'Build', cell: ({ digest }) => <Mono of={digest.replace('sha256:', '').slice(0, DIGITS)} /> },
              { title: 'Deployed', cell: ({ deployedAt }) => time(deployedAt) },
              { title: 'Size', isNumber: true, cell: ({ size }) => bytes(size) },
              { title: 'Functions', cell: ({ functions }) => <Text of={functions.join(', ')} /> },
              {
                title: '',
                cell: ({ digest }) =>
                  digest === endpoint.build?.digest ? (
                    <Badge state="current" />
                  ) : (
                    <ConfirmButton
                      label="Roll back"
                      explain={
                        <p>
                          <Text of={endpoint.name} /> returns to the build {digest.slice(-DIGITS)}, with its settings and environment values
                          of then. Jobs that wait run on it; running jobs continue on the present one.
                        </p>
                      }
                      refusal={refusal}
                      isBusy={rollback.isPending}
                      onConfirm={() => rollback.mutate(digest.replace('sha256:', ''))}
                    />
                  ),
              },
            ]}
          />
        )}
      </Loaded>
    </>
  );
}
