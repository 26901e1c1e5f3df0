/** Loads each part through `config.ts` and `start.ts`, and only when its command runs. */
import { CapstanError, errorTable } from '../lib/errors.ts';
import type { Environment, Settings } from '../terminal/config.ts';
import type { PartRole } from './child.ts';
import type { RunningPart } from './part-process.ts';

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
  const [{ readConfig }, { runGateway }] = await Promise.all([import('../gateway/config.ts'), import('../gateway/processes/run.ts')]);
  const handle = await runGateway(readConfig({}, variables(settings, environment)));
  return { handle, address: new URL(handle.url).host };
}

export async function startAgent(settings: Settings, environment: Environment): Promise<RunningPart> {
  const [{ readConfig }, { start }] = await Promise.all([import('../agent/config.ts'), import('../agent/start.ts')]);
  const handle = await start(readConfig({}, variables(settings, environment)));
  return { handle, address: '', gaveUp: handle.removed };
}
