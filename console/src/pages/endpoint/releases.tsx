import type { JSX } from 'preact';

import { LIST_RELEASES, ROLLBACK } from '../../api/graphql/gen/operations.ts';
import { useAction, useLive } from '../../api/live.ts';
import { graphql } from '../../api/request.ts';
import { useWriteRefusal } from '../../api/session.ts';
import { bytes, time } from '../../ui/format.ts';
import { Badge, ConfirmButton, Failure, Loaded, Mono, Table, Text } from '../../ui/parts.tsx';
import type { EndpointData } from './query.ts';
import { differencesOf, type Difference } from './release-differences.ts';

const DIGITS = 12;

/** The builds that the endpoint can return to, and what that would change. */
export function Releases({ endpoint }: { endpoint: EndpointData }): JSX.Element {
  const refusal = useWriteRefusal();
  const query = useLive(
    ['builds', endpoint.id, endpoint.release],
    (signal) => graphql(LIST_RELEASES, { id: endpoint.id, endpoint: endpoint.name, environment: endpoint.environment }, signal),
    10_000,
  );
  const rollback = useAction((build: string) =>
    graphql(ROLLBACK, { environment: endpoint.environment, endpoint: endpoint.id, build: build.replace('sha256:', '') }),
  );
  return (
    <>
      <Failure error={rollback.error} />
      <Loaded query={query}>
        {({ builds, endpoint: present }) => (
          <Table
            label="Builds"
            rows={builds}
            id={({ digest, deployedAt }) => digest + deployedAt}
            empty="No build: its own image serves it."
            columns={[
              { title: 'Build', cell: ({ digest }) => <Mono of={shortened(digest)} /> },
              { title: 'Deployed', cell: ({ deployedAt }) => time(deployedAt) },
              { title: 'Size', isNumber: true, cell: ({ size }) => bytes(size) },
              { title: 'Functions', cell: ({ functions }) => <Text of={functions.join(', ')} /> },
              {
                title: 'Compared with now',
                cell: ({ settings }) => <Differences of={differencesOf(endpoint, present?.settings, settings)} />,
              },
              {
                title: '',
                cell: ({ digest, settings }) =>
                  digest === endpoint.build?.digest ? (
                    <Badge state="current" />
                  ) : (
                    <ConfirmButton
                      label="Roll back"
                      explain={
                        <>
                          <p>
                            <Text of={endpoint.name} /> returns to the build {shortened(digest)}, with its settings and environment values
                            of then. Jobs that wait run on it; running jobs continue on the present one.
                          </p>
                          <Differences of={differencesOf(endpoint, present?.settings, settings)} isOpen />
                        </>
                      }
                      refusal={refusal}
                      isBusy={rollback.isPending}
                      onConfirm={() => rollback.mutate(digest)}
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

function shortened(digest: string): string {
  return digest.replace('sha256:', '').slice(0, DIGITS);
}

/** What a rollback would change, as a list that opens. */
function Differences({ of, isOpen = false }: { of: readonly Difference[] | undefined; isOpen?: boolean }): JSX.Element {
  if (of === undefined) return <span class="muted">not known</span>;
  if (of.length === 0) return <span class="muted">same settings and environment names</span>;
  return (
    <details open={isOpen}>
      <summary>{of.length === 1 ? '1 difference' : `${of.length} differences`}</summary>
      <ul class="plain">
        {of.map(({ name, now, earlier }) => (
          <li key={name}>
            <Mono of={name} />: <del>{now === '' ? 'none' : <Text of={now} />}</del> →{' '}
            <ins>{earlier === '' ? 'none' : <Text of={earlier} />}</ins>
          </li>
        ))}
      </ul>
    </details>
  );
}
