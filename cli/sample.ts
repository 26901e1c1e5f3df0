/** The sample endpoint of `npm start`: deployed when it is not there as it stands in the folder, then called once. */
import { Endpoint } from '../sdk/typescript/endpoint.ts';
import { CapstanError } from '../proto/errors.ts';
import { listEndpoints } from './api/control.ts';
import type { EndpointRow } from './api/endpoint-row.ts';
import { connectGateway } from './api/gateway-client.ts';
import { ownSettings } from './api/local-endpoints.ts';
import type { Settings } from './config.ts';
import { buildOptions } from './build-options.ts';
import { build } from './build/build.ts';
import { deployApplication } from './deploy/deploy.ts';
import { curlFor } from './deploy/report.ts';
import { apiKey } from './local.ts';
import type { Terminal } from './terminal/terminal.ts';

const NAME = 'text-analysis';
const ENVIRONMENT = 'default';
/** For the one job; and another for the reader to try, the one that shows how characters are counted. */
const FIRST_TEXT = 'Capstan runs your functions on your own hosts. Does it work? It does!';
const NEXT_TEXT = '😀 hi!';

export interface Sample {
  readonly folder: string;
  readonly settings: Settings;
  /** Base URL of the gateway. */
  readonly url: string;
  /** How a shell writes the API key. */
  readonly key: string;
  readonly terminal: Terminal;
  readonly signal: AbortSignal;
}

export async function showSample({ folder, settings, url, key, terminal, signal }: Sample): Promise<void> {
  const own = ownSettings(settings);
  const row = await deployOnce(folder, own, url, terminal);
  signal.throwIfAborted();
  terminal.step(`running one job on ${NAME}`);
  const endpoint = new Endpoint(row.id, { apiKey: apiKey(own), baseUrl: url });
  const job = await endpoint.run({ text: FIRST_TEXT }, { signal });
  const result = await job.wait({ signal });
  terminal.data(JSON.stringify(result, null, 2));
  if (result.status !== 'COMPLETED')
    throw new CapstanError('INTERNAL', `the job ended ${result.status}: ${result.error ?? 'it says no more'}`);
  terminal.done(`${NAME} serves at ${row.url}`);
  terminal.next(curlFor(row.url, { text: NEXT_TEXT }, key));
}

/** The same files have the same digest: what is there already is not sent again. */
async function deployOnce(folder: string, settings: Settings, base: string, terminal: Terminal): Promise<EndpointRow> {
  const { application, artifact } = await build(folder, buildOptions({}, { variables: {}, cwd: folder }), terminal);
  const client = connectGateway(base, apiKey(settings));
  const known = await listEndpoints(client, ENVIRONMENT);
  const same = known.find(({ name, buildDigest }) => name === NAME && buildDigest === artifact.digest);
  if (same !== undefined) return same;
  terminal.step(`deploying ${folder}`);
  const { endpoints } = await deployApplication(client, application, artifact, ENVIRONMENT, terminal);
  const [deployed] = endpoints.filter(({ name }) => name === NAME);
  if (deployed === undefined) throw new CapstanError('INTERNAL', `the scheduler deployed no endpoint ${NAME}`);
  return deployed;
}
