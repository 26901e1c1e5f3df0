/**
 * The limits of one worker with all it starts. A control group holds them where the node has these; otherwise only memory is
 * limited, by watching the worker's process group.
 */
import { messageOf } from '../../../lib/to-error.ts';
import { limitMemory } from '../../runtimes/memory-limit.ts';
import type { WorkerStart } from '../../runtimes/runtime.ts';
import type { ControlGroup } from './control-group.ts';
import type { ControlGroups } from './control-groups.ts';

export interface WorkerLimitsOptions {
  /** Absent: no control groups. */
  readonly groups?: ControlGroups | undefined;
  /** Most processes and threads of one worker; 0: no limit. */
  readonly pids?: number;
}

export class WorkerLimits {
  readonly #groups: ControlGroups | undefined;
  readonly #group: ControlGroup | undefined;
  #endWatch: (() => void) | undefined;
  #ended: Promise<void> | undefined;

  /** Throws what the kernel refuses (no memory for a group). */
  constructor({ groups, pids = 0 }: WorkerLimitsOptions) {
    this.#groups = groups;
    this.#group = groups?.create();
    this.#group?.limit({ memoryBytes: 0, cpuMillis: 0, pids });
  }

  /** Lines of `sh` that the worker's first process runs before anything else, as the agent's user. */
  get entry(): readonly string[] {
    return this.#group === undefined ? [] : [this.#group.entry];
  }

  /** Whether the kernel limits memory; otherwise `hold` needs the leader of the worker's process group. */
  get limitsMemory(): boolean {
    return this.#group !== undefined && this.#groups?.limits.has('memory') === true;
  }

  /**
   * Sets the limits of an assignment. Calls `kill` with a reason when the worker exceeds one, or cannot be limited.
   * @param inFiles - bytes of the worker's files in memory, where the kernel does not charge them to it
   */
  hold(
    { memoryBytes, cpuMillis }: Pick<WorkerStart, 'memoryBytes' | 'cpuMillis'>,
    leader: number | undefined,
    kill: (reason: string) => void,
    inFiles?: () => number,
  ): void {
    if (this.#ended !== undefined) return;
    const group = this.#group;
    try {
      group?.limit({ memoryBytes, cpuMillis, pids: 0 });
    } catch (error) {
      kill(messageOf(error));
      return;
    }
    if (memoryBytes <= 0) return;
    this.#endWatch?.();
    if (group !== undefined && this.limitsMemory) this.#endWatch = this.#groups?.watchMemory(group, kill);
    else if (leader !== undefined) this.#endWatch = limitMemory(leader, memoryBytes, kill, inFiles);
  }

  /** Returns why the kernel ended the worker; undefined when it did not. Known until `end` is called. */
  get reasonOfEnd(): string | undefined {
    return this.#group?.outOfMemory;
  }

  /** Kills all that is left of the worker and frees its group. Never rejects. */
  end(): Promise<void> {
    this.#endWatch?.();
    return (this.#ended ??= this.#group === undefined ? Promise.resolve() : (this.#groups?.end(this.#group) ?? Promise.resolve()));
  }
}
