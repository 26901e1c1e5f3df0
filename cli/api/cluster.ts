/** Lists cells and schedulers: from the schedulers themselves where the gateway token is at hand, else through the gateway. */
import { ClusterClient, type ClusterRow } from '../../lib/owner/cluster-list.ts';
import { clientCredentials } from '../../lib/grpc-tls.ts';
import type { CapstanError } from '../../lib/errors.ts';
import type { Environment, Settings } from '../../terminal/config.ts';
import { connect } from '../../client/gateway.ts';
import { GET_CLUSTER } from '../../client/graphql/gen/operations.ts';
import { checkTokenTarget } from '../../client/key-target.ts';
import { storedGatewayToken } from '../../supervisor/stored-secrets.ts';
import { schedulerAddress } from '../../client/local.ts';
import { readLogin } from '../../client/login-file.ts';
import { readRunFile } from '../../supervisor/run-file.ts';
import { ToolError } from '../../terminal/tool-error.ts';

const ANSWER_MS = 5_000;

/** @throws CapstanError UNAVAILABLE when neither a scheduler nor the gateway answers. */
export async function listCluster(settings: Settings, environment: Environment): Promise<ClusterRow> {
  const token = storedGatewayToken(settings.dataDir);
  if (token !== null && isOwnStack(settings, environment)) return askSchedulers(settings, token);
  const client = await connect(settings, environment);
  return (await client.query(GET_CLUSTER, {})).cluster;
}

/** Asks the schedulers, any of which answers. */
export async function askSchedulers(settings: Settings, token: string): Promise<ClusterRow> {
  checkTokenTarget(settings);
  const address = schedulerAddress(settings);
  const client = new ClusterClient(address, token, clientCredentials(address, settings), {
    'grpc.enable_http_proxy': 0,
    'grpc.use_local_subchannel_pool': 1,
    // No query for a TXT record: where no name server answers, it would keep the process for 20 s.
    'grpc.service_config_disable_resolution': 1,
  });
  try {
    return await client.list(ANSWER_MS);
  } catch (error) {
    throw explain(error as CapstanError, address);
  } finally {
    client.close();
  }
}

/** The data folder is what the command is about: nobody named a gateway elsewhere. */
function isOwnStack(settings: Settings, environment: Environment): boolean {
  if (settings.url !== undefined) return false;
  return (
    settings.scheduler !== undefined ||
    settings.grpcPort !== undefined ||
    readRunFile(settings.dataDir) !== null ||
    readLogin(environment) === null
  );
}

function explain(error: CapstanError, address: string): CapstanError {
  const several = address.includes(',');
  switch (error.code) {
    case 'DEADLINE_EXCEEDED':
    case 'UNAVAILABLE': {
      // What a scheduler itself says about its database names the store.
      if (error.message.startsWith('store ')) return error;
      const who = several ? `no scheduler of ${address} responds` : `the scheduler at ${address} does not respond`;
      // Certificates that do not fit together are no matter of the address.
      if (/certificate|CAPSTAN_TLS/.test(error.message))
        return new ToolError(
          error.code,
          `${who}: ${error.message}`,
          'Check the files of CAPSTAN_TLS_CA, CAPSTAN_TLS_CERT and CAPSTAN_TLS_KEY on both sides.',
          { cause: error },
        );
      return new ToolError(error.code, who, 'Use other schedulers with: --scheduler <host:port>,<host:port>', { cause: error });
    }
    case 'PERMISSION_DENIED':
    case 'UNAUTHENTICATED':
      return new ToolError(
        error.code,
        `the scheduler at ${address} rejected the gateway token of this data folder: ${error.message}`,
        'Set --data-dir to the data folder of one of its schedulers, or query the gateway with --url.',
        { cause: error },
      );
    default:
      return error;
  }
}
