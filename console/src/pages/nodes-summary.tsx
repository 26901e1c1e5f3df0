import type { JSX } from 'preact';

import { SUMMARIZE_NODES } from '../api/graphql/gen/operations.ts';
import { useLive } from '../api/live.ts';
import { graphql } from '../api/request.ts';
import { Loaded, Section } from '../ui/parts.tsx';
import { Devices, type DeviceUsers } from './devices.tsx';
import { HostTiles } from './host-tiles.tsx';

const MAX = 100;

/** How often figures of nodes are read again, ms: no stream announces them. */
const POLL_MS = 60_000;

/** The nodes as tiles, and a table of their GPUs. */
export function NodesSummary({ endpoints }: Pick<DeviceUsers, 'endpoints'>): JSX.Element {
  const query = useLive(['nodes-summary'], (signal) => graphql(SUMMARIZE_NODES, {}, signal), POLL_MS);
  return (
    <Section title="Nodes">
      <Loaded query={query}>
        {({ nodes, workers }) => (
          <>
            <HostTiles hosts={nodes} />
            {nodes.length === MAX && <p class="muted">The first {MAX} nodes.</p>}
            {nodes.some(({ devices }) => devices.length > 0) && <Devices label="GPUs" nodes={nodes} users={{ workers, endpoints }} />}
          </>
        )}
      </Loaded>
    </Section>
  );
}
