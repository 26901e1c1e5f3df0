/** What workers run of this host's own software: its Python. Follows what is installed and removed while the agent runs. */
import { AS_NOBODY, readHostPython, type HostPython } from './inventory/host-python.ts';
import type { PythonReader } from './inventory/inventory.ts';
import type { WorkerEnvironments } from './inventory/python-environment.ts';
import type { WorkerLauncher } from './sandbox/launcher.ts';

export interface HostSoftwareOptions {
  readonly pythons: WorkerEnvironments;
  readonly launcher: WorkerLauncher;
  /** What workers inherit of the agent itself. */
  readonly variables: Readonly<Record<string, string>>;
}

export class HostSoftware implements PythonReader {
  readonly #options: HostSoftwareOptions;
  /** Called with what workers that start from now on inherit. */
  onChange: (baseEnv: Readonly<Record<string, string>>) => void = () => undefined;

  constructor(options: HostSoftwareOptions) {
    this.#options = options;
  }

  /** The host's part of the workers' environment, with the host's paths. */
  get hostEnv(): Readonly<Record<string, string>> {
    const { pythons, launcher } = this.#options;
    return launcher.level === 'user' ? pythons.everyone : pythons.own;
  }

  /** All that workers inherit, with the paths that they see. */
  get baseEnv(): Readonly<Record<string, string>> {
    const { launcher, variables } = this.#options;
    return launcher.environmentOf({ ...this.hostEnv, ...variables });
  }

  hasChanged(): Promise<boolean> {
    return this.#options.pythons.hasChanged();
  }

  async read(): Promise<HostPython> {
    const { pythons, launcher } = this.#options;
    const before = this.hostEnv['PATH'];
    await pythons.refresh();
    // A Python that stays may have packages in other folders than before.
    const seesOthers = await launcher.refresh(this.hostEnv);
    if (seesOthers || this.hostEnv['PATH'] !== before) this.onChange(this.baseEnv);
    return readHostPython(this.hostEnv, launcher.level === 'user' ? AS_NOBODY : {});
  }
}
