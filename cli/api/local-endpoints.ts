/** Endpoints of the stack that this process runs, read with the key of its own data folder. */
import type { EndpointInfo } from '../../proto/gen/capstan/v1/control.ts';
import type { Settings } from '../config.ts';
import { storedApiKey, withScheduler } from '../local.ts';

/** The settings for talking to the stack on the data folder itself: what runs there, with the key that is stored there. */
export function ownSettings(settings: Settings): Settings {
  const key = storedApiKey(settings.dataDir);
  const { httpPort: _http, grpcPort: _grpc, scheduler: _scheduler, ...rest } = settings;
  return { ...rest, ...(key === null ? {} : { apiKey: key }) };
}

export async function listLocalEndpoints(settings: Settings): Promise<EndpointInfo[]> {
  return withScheduler(ownSettings(settings), (client) => client.listEndpoints(''));
}
