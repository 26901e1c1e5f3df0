/**
 * Workers whose devices cannot be used now. Such a worker is given nothing: no attempt, no request,
 * no start. Attempts that have not entered their handler are returned to the scheduler; those that
 * run go on. The scheduler drains the worker and replaces it; where the device is usable again
 * before that, the worker goes on.
 */
import type { State, Worker } from './image.ts';

/** Why the worker cannot use its devices; undefined when it can. */
export function deviceProblemOf(image: State, worker: Worker): string | undefined {
  for (const uuid of worker.deviceUuids) {
    const problem = image.deviceProblems.get(uuid);
    if (problem !== undefined) return `${uuid}: ${problem}`;
  }
  return undefined;
}

/** Takes the devices that cannot be used now. Returns the workers that lost one of theirs. */
export function setDeviceProblems(image: State, problems: ReadonlyMap<string, string>): Worker[] {
  const lost: Worker[] = [];
  const before = new Map([...image.workers.values()].map((worker) => [worker, deviceProblemOf(image, worker)]));
  image.deviceProblems = problems;
  for (const [worker, problemBefore] of before) {
    const problem = deviceProblemOf(image, worker);
    if (problem === problemBefore) continue;
    image.workersChanged = true;
    if (problem !== undefined) lost.push(worker);
  }
  return lost;
}
