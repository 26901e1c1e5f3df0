/** Hosts as tiles: their load, and a bar for each GPU. */
import type { JSX } from 'preact';
import { Link } from 'wouter-preact';

import type { SummarizeNodesResult } from '../api/graphql/gen/operations.ts';
import { bytes, percent } from '../ui/format.ts';
import { Badge, LastSeen, Text } from '../ui/parts.tsx';
import { visible } from '../ui/plain-text.ts';
import { problemsFirst, toneOf } from './host-order.ts';
import { stateOf } from './node-panel.tsx';

type Host = SummarizeNodesResult['nodes'][number];
type Device = Host['devices'][number];

export function HostTiles({ hosts }: { hosts: readonly Host[] }): JSX.Element {
  if (hosts.length === 0) return <p class="muted">No nodes, or none that runs workers of your account.</p>;
  return (
    <ul class="tiles">
      {problemsFirst(hosts).map((host) => (
        <Tile key={host.id} host={host} />
      ))}
    </ul>
  );
}

function Tile({ host }: { host: Host }): JSX.Element {
  const { id, name, connected, lastSeenAt, workers, jobs, devices } = host;
  return (
    <li class={`${toneOf(host)} ${connected ? '' : 'stale'}`}>
      <div class="tile-head">
        <Link href={`/nodes/${encodeURIComponent(id)}`}>{visible(name)}</Link>
        <span>
          <Badge state={stateOf(host)} /> {!connected && lastSeenAt !== null && <LastSeen at={lastSeenAt} />}
        </span>
      </div>
      <p class="muted">
        {workers} {workers === 1 ? 'worker' : 'workers'}, {jobs} {jobs === 1 ? 'job' : 'jobs'}, {loadOf(host)}
      </p>
      {devices.map((device, place) => (
        <DeviceBar key={`${place} ${device.uuid}`} node={id} place={place} device={device} isKnown={connected} />
      ))}
    </li>
  );
}

/** Processors and memory; a dash for what the key does not see. */
function loadOf({ cpuPercent, memoryBytes: all, memoryAvailableBytes: free }: Host): string {
  const memory = all === null || free === null ? '–' : percent(all - free, all);
  return `processors ${cpuPercent === null ? '–' : `${Math.round(cpuPercent)} %`}, memory ${memory}`;
}

interface DeviceBarProps {
  readonly node: string;
  readonly place: number;
  readonly device: Device;
  /** The node is connected: what it reported holds. */
  readonly isKnown: boolean;
}

/** How busy a GPU is, with its memory. An unknown figure has no bar: it is not 0. */
function DeviceBar({ node, place, device, isKnown }: DeviceBarProps): JSX.Element {
  const { uuid, model, healthy, problem, utilizationPercent: busy, memoryBytes: all, memoryUsedBytes: used } = device;
  const name = `${place} ${model}`;
  const memory = used === null ? bytes(all) : `${bytes(used)} of ${bytes(all)}`;
  const figures = busy === null ? memory : `${Math.round(busy)} %, ${memory}`;
  const tone = !isKnown ? 'unknown' : healthy ? 'good' : 'bad';
  return (
    <div class="device-bar" title={visible(`${name}: ${figures}${problem === null ? '' : `, ${problem}`}`)}>
      <span>
        {uuid === '' ? (
          <Text of={name} />
        ) : (
          <Link href={`/nodes/${encodeURIComponent(node)}?gpu=${encodeURIComponent(uuid)}`}>{visible(name)}</Link>
        )}
        {!healthy && isKnown && <strong> unhealthy</strong>}
      </span>
      <span class="muted">{figures}</span>
      <svg
        class={tone}
        role="img"
        aria-label={busy === null ? 'use unknown' : `${Math.round(busy)} % busy`}
        width="100%"
        height="8"
        preserveAspectRatio="none"
        viewBox="0 0 100 8"
      >
        {busy !== null && <rect width={Math.max(1, Math.min(100, busy))} height="5" />}
        {used !== null && all > 0 && <rect class="memory" y="6" width={Math.min(100, (100 * used) / all)} height="2" />}
      </svg>
    </div>
  );
}
