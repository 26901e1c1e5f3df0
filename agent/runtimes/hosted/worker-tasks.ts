/**
 * The tasks of one worker, running and ended. A worker may speak of these only: its own code can write any key to the
 * channel, also one of another account's job.
 *
 * Frames about a task may come after its end (a progress update that waited for its turn, a line of something that the
 * handler left running), so ended tasks are remembered, at least {@link REMEMBERED} of them. A worker that has ended more
 * may name one that is forgotten here.
 */

/** Ended tasks are remembered in two sets of at most this many. */
export const REMEMBERED = 1_000;

/** `unknown`: never its own, or forgotten. */
export type TaskOwnership = 'running' | 'ended' | 'unknown' | 'foreign';

interface EndedTasks {
  readonly keys: Set<string>;
  readonly jobs: Set<string>;
}

export class WorkerTasks {
  /** Jobs, by key. */
  readonly #running = new Map<string, string>();
  /** The latest ended tasks, and those before them. */
  #ended = noTasks();
  #earlier = noTasks();
  #hasForgotten = false;

  add(key: string, jobId: string): void {
    this.#running.set(key, jobId);
  }

  has(key: string): boolean {
    return this.#running.has(key);
  }

  /** Empty when the task does not run. */
  jobOf(key: string): string {
    return this.#running.get(key) ?? '';
  }

  end(key: string): void {
    const jobId = this.#running.get(key);
    if (jobId === undefined) return;
    this.#running.delete(key);
    if (this.#ended.keys.size >= REMEMBERED) {
      this.#hasForgotten ||= this.#earlier.keys.size > 0;
      this.#earlier = this.#ended;
      this.#ended = noTasks();
    }
    this.#ended.keys.add(key);
    this.#ended.jobs.add(jobId);
  }

  keys(): string[] {
    return [...this.#running.keys()];
  }

  ownership(key: string): TaskOwnership {
    if (this.#running.has(key)) return 'running';
    if (this.#ended.keys.has(key) || this.#earlier.keys.has(key)) return 'ended';
    return this.#hasForgotten ? 'unknown' : 'foreign';
  }

  /** The same for a job; its tasks are attempts. */
  ownershipOfJob(jobId: string): TaskOwnership {
    for (const running of this.#running.values()) if (running === jobId) return 'running';
    if (this.#ended.jobs.has(jobId) || this.#earlier.jobs.has(jobId)) return 'ended';
    return this.#hasForgotten ? 'unknown' : 'foreign';
  }

  /** The job of the only running task; empty when none or several run. */
  get soleJob(): string {
    if (this.#running.size !== 1) return '';
    const [sole = ''] = this.#running.values();
    return sole;
  }
}

function noTasks(): EndedTasks {
  return { keys: new Set(), jobs: new Set() };
}
