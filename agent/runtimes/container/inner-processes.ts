/**
 * Ends what a stopped job of a program started, in a container whose processes this agent does not see: in gVisor, of an engine on
 * another host, or without root. A shell of the container's image does it; an image without one keeps them until the worker ends.
 */
import type { Look } from '../gpu-view.ts';

/** Time for one command, ms: gVisor takes some 100 ms to start it. */
const COMMAND_MS = 10_000;
/** Length of a clock tick, ms. */
const TICK_MS = 10;

/** Prints its own start in ticks. Fields after the name in /proc/<pid>/stat, counted from 1: state, parent, …, 20: start. */
const OWN_START = `read -r stat </proc/self/stat; set -- \${stat##*) }; echo \${20}`;
/** Kills what was started at or after a tick; what has no parent here was sent in from outside, as this shell. */
const END_SINCE = `
since=$1
for round in 1 2 3 4 5 6 7 8 9 10; do
  found=
  for folder in /proc/[0-9]*; do
    { read -r stat <$folder/stat; } 2>/dev/null || continue
    pid=\${folder#/proc/}
    set -- \${stat##*) }
    case $1 in Z | X) continue ;; esac
    if [ $pid != 1 ] && [ $pid != $$ ] && [ $2 != 0 ] && [ \${20} -ge $since ]; then kill -9 $pid 2>/dev/null && found=1; fi
  done
  [ -z "$found" ] && exit 0
done`;

type RunInside = (command: readonly string[], limitMs: number) => Promise<Look | undefined>;

export class InnerProcesses {
  readonly #run: RunInside;
  /** When the clock of the container's processes was at 0, at the latest, ms; undefined until it is known. */
  #bootMs: number | undefined;

  constructor(run: RunInside) {
    this.#run = run;
  }

  /** Reads the clock by which the container counts the starts of its processes. Called when it runs. Never rejects. */
  async readClock(): Promise<void> {
    const look = await this.#run(['sh', '-c', OWN_START], COMMAND_MS);
    const ticks = Number(look?.output);
    if (look?.exitCode === 0 && look.output !== '' && Number.isSafeInteger(ticks)) this.#bootMs = performance.now() - ticks * TICK_MS;
  }

  /** Returns what ends the processes that start from now on, and those of the moment before; undefined where that is not possible. */
  begin(): { end(): Promise<void> } | undefined {
    if (this.#bootMs === undefined) return undefined;
    const since = Math.floor((performance.now() - this.#bootMs) / TICK_MS);
    return {
      end: async () => {
        await this.#run(['sh', '-c', END_SINCE, 'sh', String(since)], COMMAND_MS);
      },
    };
  }
}
