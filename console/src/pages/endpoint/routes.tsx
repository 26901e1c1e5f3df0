import type { JSX } from 'preact';

import { GET_ROUTE_FIGURES, type RouteFigure } from '../../api/graphql/gen/operations.ts';
import { useLive } from '../../api/live.ts';
import { graphql } from '../../api/request.ts';
import { duration, percent } from '../../ui/format.ts';
import { Loaded, Mono, Section, Table, Text } from '../../ui/parts.tsx';
import type { EndpointData } from './query.ts';

interface Row extends Partial<RouteFigure> {
  readonly name: string;
  readonly function: string;
}

const DECIMAL_BELOW = 10;
/** A step of the history. */
const POLL_MS = 10_000;

/** The routes of a load-balanced endpoint with the requests of the last hour. */
export function Routes({ endpoint }: { endpoint: EndpointData }): JSX.Element {
  const query = useLive(['routes', endpoint.id], (signal) => graphql(GET_ROUTE_FIGURES, { endpoint: endpoint.id }, signal), POLL_MS);
  return (
    <Section title="Routes">
      <p class="muted">Requests of the last hour. A request is counted about 15 s after its end.</p>
      <Loaded query={query}>
        {({ routeFigures }) => (
          <Table
            label="Routes"
            rows={rowsOf(endpoint, routeFigures)}
            id={({ name }) => name}
            empty="No routes and no requests yet."
            columns={[
              { title: 'Route', isId: true, cell: ({ name }) => <Mono of={name} /> },
              { title: 'Function', cell: ({ function: name }) => <Text of={name} /> },
              { title: 'Requests', isNumber: true, cell: ({ requests = 0 }) => requests },
              { title: 'A minute', isNumber: true, cell: ({ perMinute = 0 }) => rate(perMinute) },
              { title: '4xx', isNumber: true, cell: ({ refused = 0 }) => refused },
              {
                title: '5xx',
                isNumber: true,
                cell: ({ errors = 0, requests = 0 }) => (errors === 0 ? 0 : `${errors} (${percent(errors, requests)})`),
              },
              { title: 'p50', isNumber: true, cell: ({ p50 }) => duration(p50) },
              { title: 'p95', isNumber: true, cell: ({ p95 }) => duration(p95) },
              { title: 'p99', isNumber: true, cell: ({ p99 }) => duration(p99) },
            ]}
          />
        )}
      </Loaded>
    </Section>
  );
}

/** Declared routes first, then what no declared route took. */
function rowsOf({ routes }: EndpointData, figures: readonly RouteFigure[]): readonly Row[] {
  const byName = new Map(figures.map((each) => [`${each.method} ${each.path}`, each]));
  const declared = routes.map(({ method, path, function: fn }) => {
    const name = `${method} ${path}`;
    const figure = byName.get(name);
    byName.delete(name);
    return { ...figure, name, function: fn };
  });
  const isWhole = routes.length === 0;
  const others = [...byName.values()].map((figure) => ({
    ...figure,
    name: nameOf(figure, isWhole),
    function: '–',
  }));
  return [...declared, ...others];
}

/** Names requests that no declared route took. `isWhole`: the endpoint declares none. */
export function nameOf({ method, path }: Pick<RouteFigure, 'method' | 'path'>, isWhole: boolean): string {
  if (path === '*') return 'other routes';
  if (path !== '') return `${method} ${path}`;
  return isWhole ? 'all requests' : 'no route, or a WebSocket';
}

function rate(perMinute: number): string {
  return perMinute === 0 ? '0' : perMinute < DECIMAL_BELOW ? perMinute.toFixed(1) : String(Math.round(perMinute));
}
