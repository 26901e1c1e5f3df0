/** What all checks share. */
import type { Report } from './report.ts';
import type { Service } from './service.ts';

export interface World {
  readonly report: Report;
  readonly service: Service;
  /** Id of the endpoint whose function does what a check names (app/gpu_check.py). */
  readonly gpu: string;
  /** An empty folder that workers can read. */
  readonly work: string;
  /** For the checks that take time, s. */
  readonly seconds: number;
  /** How many workers start and end. */
  readonly starts: number;
  /** Time that is left for the whole check, ms. */
  readonly left: () => number;
}

/** Runs one action in a worker. @throws Error when its job does not complete. */
export async function act<T>({ service, gpu }: World, action: string, options: object = {}): Promise<T> {
  const id = await service.run(gpu, { action, options });
  const job = await service.ended(gpu, { id, status: 'IN_QUEUE' });
  if (job.status !== 'COMPLETED') throw new Error(`${action}: ${job.status} ${job.error ?? ''}`);
  return job.output as T;
}
