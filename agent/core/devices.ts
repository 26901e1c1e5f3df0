/**
 * Workers whose devices are unusable. Such a worker receives no attempt, no request and no start. Attempts that have
 * not entered their handler are returned to the scheduler; running ones continue. The scheduler drains and replaces the
 * worker; if the device becomes usable before that, the worker continues.
 *
 * A worker that alone cannot use its devices any more is started anew here once it holds nothing: only a new container gets them back.
 */
import type { State, Worker } from './state.ts';

/** Returns why the worker cannot use its devices; undefined when it can. */
export function deviceProblemOf(state: State, worker: Worker): string | undefined {
  if (worker.viewProblem !== '') return worker.viewProblem;
  for (const uuid of worker.deviceUuids) {
    const problem = state.deviceProblems.get(uuid);
    if (problem !== undefined) return `${uuid}: ${problem}`;
  }
  return undefined;
}

/** Sets the unusable devices. Returns the workers that have lost one of theirs. */
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
