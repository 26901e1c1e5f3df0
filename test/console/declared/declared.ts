/** An endpoint whose form follows from its source. */
import { endpoint, GpuGroup } from '@capstan/sdk';

export const greet = endpoint(
  { name: 'greet', gpu: GpuGroup.ANY, workers: [0, 1], idleTimeout: 600 },
  (name: string, style: 'plain' | 'loud', times: number = 1, polite: boolean = false) =>
    `${polite ? 'dear ' : ''}${style === 'loud' ? name.toUpperCase() : name}`.repeat(times),
);
