import type { JSX } from 'preact';

import { LIST_RELEASES, ROLLBACK, type ListReleasesResult } from '../../api/graphql/gen/operations.ts';
import { useAction, useLive } from '../../api/live.ts';
import { graphql } from '../../api/request.ts';
import { useWriteRefusal } from '../../api/session.ts';
import { bytes, time } from '../../ui/format.ts';
import { Badge, ConfirmButton, Failure, Loaded, Mono, Table, Text } from '../../ui/parts.tsx';
import type { EndpointData } from './query.ts';
import { ReleaseComparison } from './release-comparison.tsx';
import { Differences } from './settings-differences.tsx';
import { differencesOf } from './release-differences.ts';

const DIGITS = 12;
const COMMIT_DIGITS = 8;

type ReleaseSource = NonNullable<ListReleasesResult['builds'][number]['release']['source']>;

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
          <>
            <Table
              label="Builds"
              rows={builds}
              id={({ digest, deployedAt }) => digest + deployedAt}
              empty="No build: its own image serves it."
              columns={[
                { title: 'Release', isNumber: true, cell: ({ release }) => numberText(release.number) },
                {
                  title: 'Deployed',
                  cell: ({ deployedAt, release }) => (
                    <>
                      {time(deployedAt)}
                      <div class="muted">
                        {release.cause === 'ROLLBACK' ? 'rolled back' : 'deployed'} by{' '}
                        <Text of={release.keyName ?? release.key ?? 'unknown'} />
                      </div>
                    </>
                  ),
                },
                { title: 'Commit', isLong: true, cell: ({ release }) => <Commit of={release.source} /> },
                {
                  title: 'Build',
                  cell: ({ digest, size }) => (
                    <>
                      <Mono of={shortened(digest)} />
                      <div class="muted">{bytes(size)}</div>
                    </>
                  ),
                },
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
            {builds.length > 1 && <ReleaseComparison builds={builds} />}
          </>
        )}
      </Loaded>
    </>
  );
}

/** Releases of earlier versions of the scheduler have none. */
function numberText(number: number): string {
  return number === 0 ? '–' : String(number);
}

function Commit({ of }: { of: ReleaseSource | null }): JSX.Element {
  if (of === null) return <span class="muted">not known</span>;
  const { commit, message, isDirty } = of;
  return (
    <>
      <span title={commit}>
        <Mono of={commit.slice(0, COMMIT_DIGITS)} />
      </span>{' '}
      {isDirty && <span class="badge warn">with changes</span>}
      <div>
        <Text of={message} />
      </div>
    </>
  );
}

function shortened(digest: string): string {
  return digest.replace('sha256:', '').slice(0, DIGITS);
}
