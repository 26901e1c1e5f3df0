/**
 * Whether GPUs can be used from inside of a worker. systemd can take them from a running container (docs/gpu-hosts.md), and a device
 * file can vanish or lose its permissions, while the agent sees nothing: only a process at the worker's place is refused.
 */
export interface Look {
  readonly exitCode: number;
  /** The first characters of its output. */
  readonly output: string;
}

export interface Viewed {
  /** Runs a view (below) at the worker's place. Resolves with undefined when nothing can be told. */
  look(limitMs: number): Promise<Look | undefined>;
  readonly exited: Promise<void>;
}

/** Exit code of the script when the GPUs are lost. */
export const LOST = 77;
/** Characters of the output that are kept. */
export const MAX_LOOK = 1_000;
const LIMIT_MS = 8_000;
/**
 * Opens the device files, then asks nvidia-smi where it is there. Only errors of access count: an image can lack the library, and a
 * driver that was changed is the host's matter. Without arguments it opens all GPUs that are there. Arguments name nvidia-smi, and the
 * files that must be there.
 */
export const SCRIPT = `if [ $# -gt 0 ]; then
  program=$1; shift
else
  program=nvidia-smi
  for file in /dev/nvidiactl /dev/nvidia[0-9]*; do
    [ ! -c "$file" ] || set -- "$@" "$file"
  done
fi
for file in "$@"; do
  [ -c "$file" ] || { echo "$file is missing"; exit ${LOST}; }
  ( : <"$file" ) 2>/dev/null || { echo "$file cannot be opened"; exit ${LOST}; }
done
command -v "$program" >/dev/null 2>&1 || exit 0
said=$("$program" -L 2>&1)
case "$said" in
*'Driver/library version mismatch'*) ;;
*'Failed to initialize NVML'*|*'No devices were found'*) echo "$said"; exit ${LOST};;
esac
exit 0`;

/** The command of a view: of all GPUs at its place, or of these files alone. */
export function viewCommand(files?: readonly string[], program = 'nvidia-smi'): string[] {
  return ['/bin/sh', '-c', SCRIPT, ...(files === undefined ? [] : ['sh', program, ...files])];
}

export class GpuView {
  readonly #workers = new Map<string, Viewed>();
  /** Workers whose look has not ended. */
  readonly #looking = new Set<string>();

  /** Remembers the place of a worker until it ends. */
  keep(workerId: string, viewed: Viewed): void {
    this.#workers.set(workerId, viewed);
    void viewed.exited.then(() => {
      if (this.#workers.get(workerId) === viewed) this.#workers.delete(workerId);
    });
  }

  /** As Runtime.gpuProblem. One look at a time: one that hangs is not repeated. */
  async problemOf(workerId: string): Promise<string | undefined> {
    const viewed = this.#workers.get(workerId);
    if (viewed === undefined || this.#looking.has(workerId)) return undefined;
    this.#looking.add(workerId);
    try {
      const seen = await viewed.look(LIMIT_MS);
      if (seen?.exitCode !== LOST) return undefined;
      const [said = ''] = seen.output.split(/[\r\n]/);
      return `its GPU cannot be opened from inside: ${said}`;
    } finally {
      this.#looking.delete(workerId);
    }
  }
}
