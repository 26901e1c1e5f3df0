/** Which endpoints request hardware that no connected node has, before anything is uploaded. */
import { GpuTable } from '../../lib/gpu-table.ts';
import { NO_NODE } from '../../lib/job-errors.ts';
import type { MachineType } from '../api/nodes.ts';
import { ToolError } from '../../terminal/tool-error.ts';
import type { Terminal } from '../../terminal/terminal.ts';
import type { Application } from '../../compiler/application/application.ts';
import type { RequiredLanguages } from '../../compiler/build/language-needs.ts';
import { lackingLanguages, type HostLanguages } from './fleet-languages.ts';

export type HostHardware = Pick<MachineType, 'cpus' | 'memoryBytes' | 'devices'>;

/** A node reports a little less memory than it is sold with. */
const BYTES_OF_GB = 0.9e9;
/** Part of a card. */
const SLICE = / MIG /;

/** Returns one sentence for each endpoint that no connected node can run: what it needs, and what there is. */
export function lackingHardware({ endpoints }: Pick<Application, 'endpoints'>, types: readonly HostHardware[]): string[] {
  const table = new GpuTable();
  return endpoints.flatMap(({ spec: { name, gpuIds, gpuCount, cpu } }) => {
    if (gpuIds !== '') {
      const models = types.flatMap(({ devices }) => devices.map(({ model }) => model));
      // The service may know more names: its operator can add them.
      if (table.fault(gpuIds, models) !== null) return [];
      const selection = table.select(gpuIds);
      const wanted = Math.max(gpuCount, 1);
      const has = types.some(({ devices }) =>
        devices.some(
          ({ model, memoryBytes, count }) =>
            count >= wanted && selection.preference({ model, memoryBytes, slice: SLICE.test(model) }) !== null,
        ),
      );
      return has ? [] : [`endpoint ${name} needs ${wanted === 1 ? '' : `${wanted} × `}${gpuIds}, and ${devicesText(types)}`];
    }
    const [, processors = '0', gigabytes = '0'] = /^cpu\w+-(\d+)-(\d+)$/.exec(cpu) ?? [];
    const fits = types.some(({ cpus, memoryBytes }) => cpus >= Number(processors) && memoryBytes >= Number(gigabytes) * BYTES_OF_GB);
    return cpu === '' || fits ? [] : [`endpoint ${name} needs ${cpu}, and ${sizesText(types)}`];
  });
}

function devicesText(types: readonly HostHardware[]): string {
  if (types.length === 0) return NO_NODE;
  const models = [
    ...new Set(types.flatMap(({ devices }) => devices.map(({ model, count }) => (count === 1 ? model : `${count} × ${model}`)))),
  ];
  return models.length === 0 ? 'no connected node has a GPU' : `the connected nodes have ${models.sort().join(', ')}`;
}

function sizesText(types: readonly HostHardware[]): string {
  if (types.length === 0) return NO_NODE;
  const largest = types.reduce((one, other) => (other.cpus > one.cpus ? other : one));
  return `the largest connected node has ${largest.cpus} processors and ${Math.round(largest.memoryBytes / 1e9)} GB of memory`;
}

export interface HardwareCheck {
  readonly types: () => Promise<readonly (HostHardware & HostLanguages)[]>;
  /** What the project requires of Python and Node. */
  readonly required: RequiredLanguages;
  readonly isStrict: boolean;
  readonly terminal: Terminal;
}

/**
 * Warns of endpoints whose hardware, Python or Node no connected node has.
 * @throws CapstanError CONFLICT with `isStrict`, before anything is uploaded.
 */
export async function checkHardware(
  application: Pick<Application, 'endpoints'>,
  { types, required, isStrict, terminal }: HardwareCheck,
): Promise<void> {
  const found = await types();
  const hardware = lackingHardware(application, found).map((text) => ({
    text,
    outcome: 'its jobs and requests wait until a node joins that has it',
  }));
  const lacking = [...hardware, ...lackingLanguages(application, required, found)];
  if (lacking.length > 0 && isStrict) {
    const texts = lacking.map(({ text }) => text).join('; ');
    throw new ToolError('CONFLICT', `nothing was uploaded: ${texts}`, 'Request what a node has, or deploy without --strict.');
  }
  for (const { text, outcome } of lacking) terminal.warn(`${text}; ${outcome}`);
}
