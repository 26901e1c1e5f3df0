/** What happened to an endpoint, for its plots: deployments, and decisions about its workers. */
import type { JSX } from 'preact';
import { useMemo } from 'preact/hooks';

import { LIST_DEPLOYMENT_TIMES, type EndpointData } from '../../api/graphql/gen/operations.ts';
import { useLive } from '../../api/live.ts';
import { graphql } from '../../api/request.ts';
import { useWholeAccount } from '../../api/session.ts';
import type { Mark } from '../../ui/plot-marks.ts';

const POLL_MS = 60_000;
const MAX_LABEL = 100;

/** Deployments are seen by keys of the whole account only. */
export function useMarks({ id, environment, scaling }: EndpointData): readonly Mark[] {
  const coversAll = useWholeAccount();
  const { data } = useLive(
    ['deployment-times', environment],
    async (signal) => (coversAll ? (await graphql(LIST_DEPLOYMENT_TIMES, { environment }, signal)).deployments : []),
    POLL_MS,
  );
  return useMemo(
    () => [
      ...(data ?? [])
        .filter(({ endpoints }) => endpoints.some((each) => each.id === id))
        .map(({ number, at, cause }): Mark => ({
          ...({ kind: 'deployment', at: Date.parse(at) } as const),
          label: `deployment ${number} (${cause.toLowerCase()})`,
        })),
      ...(scaling?.decisions ?? []).map(({ at, kind, reason }): Mark => ({
        ...({ kind: 'scaling', at: Date.parse(at) } as const),
        label: `${kind}: ${reason}`.slice(0, MAX_LABEL),
      })),
    ],
    [id, data, JSON.stringify(scaling?.decisions)],
  );
}

/** What the lines across the plots mean. */
export function MarkKey({ marks }: { marks: readonly Mark[] }): JSX.Element | null {
  if (marks.length === 0) return null;
  return (
    <p class="muted mark-key">
      <span class="deployment">deployment</span> <span class="scaling">scaling decision</span>
    </p>
  );
}
