/**
 * Workers whose devices cannot be used now. Such a worker is given nothing: no attempt, no request,
 * no start. Attempts that have not entered their handler are returned to the scheduler; those that
 * run go on. The scheduler drains the worker and replaces it; where the device is usable again
 * before that, the worker goes on.
 */
import type { State, Worker } from './state.ts';

/** Why the worker cannot use its devices; undefined when it can. */
export function deviceProblemOf(state: State, worker: Worker): string | undefined {
  for (const uuid of worker.deviceUuids) {
    const problem = state.deviceProblems.get(uuid);
    if (problem !== undefined) return `${uuid}: ${problem}`;
  }
  return undefined;
}

/** Takes the devices that cannot be used now. Returns the workers that lost one of theirs. */
export function setDeviceProblems(state: State, problems: ReadonlyMap<string, string>): Worker[] {
  const lost: Worker[] = [];
  const before = new Map([...state.workers.values()].map((worker) => [worker, deviceProblemOf(state, worker)]));
  state.deviceProblems = problems;
  for (const [worker, problemBefore] of before) {
    const problem = deviceProblemOf(state, worker);
    if (problem === problemBefore) continue;
    state.workersChanged = true;
    if (problem !== undefined) lost.push(worker);
  }
  return lost;
}
