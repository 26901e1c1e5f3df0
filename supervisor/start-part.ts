/** Loads each part through `config.ts` and `start.ts`, and only when its command runs. */
import type { Gateway } from '../gateway/assembly/start.ts';
import type { GatewayConfig } from '../gateway/config.ts';
import type { GatewayProcesses } from '../gateway/processes/primary.ts';
import { CapstanError, errorTable } from '../lib/errors.ts';
import type { Environment, Settings } from '../terminal/config.ts';
import type { PartRole } from './child.ts';
import type { RunningPart } from './part-process.ts';

/** Replaces the processes of a gateway one by one. */
const RELOAD = 'SIGUSR2';

/** The parts read their own settings from the environment; flags and defaults of the tool override them. */
function variables(settings: Settings, environment: Environment): NodeJS.ProcessEnv {
  const { httpPort, grpcPort, dataDir, scheduler, apiKey } = settings;
  return {
    ...environment.variables,
    CAPSTAN_DATA_DIR: dataDir,
    ...(httpPort === undefined ? {} : { CAPSTAN_HTTP_PORT: String(httpPort) }),
    ...(grpcPort === undefined ? {} : { CAPSTAN_GRPC_PORT: String(grpcPort) }),
    ...(scheduler === undefined ? {} : { CAPSTAN_SCHEDULER: scheduler }),
    ...(apiKey === undefined ? {} : { SERVICE_API_KEY: apiKey }),
  };
}

export async function startScheduler(settings: Settings, environment: Environment): Promise<RunningPart> {
  const [{ readConfig }, { start }] = await Promise.all([import('../scheduler/config.ts'), import('../scheduler/assembly/start.ts')]);
  const lost = Promise.withResolvers<CapstanError>();
  const onFatal = (error: unknown): void => {
    if (error instanceof CapstanError && error.code === 'DATA_LOST') lost.resolve(error);
    else process.exit(errorTable[error instanceof CapstanError ? error.code : 'DATA_DIR'].exit);
  };
  const handle = await start(readConfig({}, variables(settings, environment)), { onFatal });
  const role = (): PartRole => (handle.status.kind === 'owner' ? 'owner' : 'standby');
  const watch = (changed: (role: PartRole) => void): void => handle.watch(() => changed(role()));
  return { handle, address: handle.address, role: { now: role, watch }, gaveUp: lost.promise };
}

export async function startGateway(settings: Settings, environment: Environment): Promise<RunningPart> {
  const [{ readConfig }, { processCount }] = await Promise.all([import('../gateway/config.ts'), import('../gateway/processes/shares.ts')]);
  const config = readConfig({}, variables(settings, environment));
  const count = processCount(config);
  const handle = count > 1 ? await startProcesses(config, count) : await startProcess(config);
  return { handle, address: new URL(handle.url).host };
}

async function startProcess(config: GatewayConfig): Promise<Gateway> {
  const { start } = await import('../gateway/assembly/start.ts');
  // A service manager that reloads the unit must not end it.
  process.on(RELOAD, () => process.stderr.write('SIGUSR2: the gateway has one process; restart it to replace it\n'));
  return start(config);
}

async function startProcesses(config: GatewayConfig, count: number): Promise<GatewayProcesses> {
  const { GatewayProcesses } = await import('../gateway/processes/primary.ts');
  const processes = await GatewayProcesses.start(config, count);
  process.on(RELOAD, () => void processes.reload());
  return processes;
}

export async function startAgent(settings: Settings, environment: Environment): Promise<RunningPart> {
  const [{ readConfig }, { start }] = await Promise.all([import('../agent/config.ts'), import('../agent/start.ts')]);
  const handle = await start(readConfig({}, variables(settings, environment)));
  return { handle, address: '', gaveUp: handle.removed };
}
