/** Explains that a gateway of another version does not know a field that the tool uses. */
import type { CapstanError } from '../lib/errors.ts';
import { compareVersions } from './versions.ts';
import { ToolError } from '../terminal/tool-error.ts';
import { toolVersion } from '../terminal/version.ts';
import { callHttp } from './http-call.ts';

const ANSWER_MS = 10_000;
/** What GraphQL says of a name that the schema lacks. The tool's queries are valid for a gateway of its own version. */
const UNKNOWN_NAME =
  /^(?:Cannot query field "|Unknown (?:argument|type|field|directive) "|Value "\w+" does not exist in )|\bis not defined by type "/;

/** Returns the version that the gateway states without a key; null when it states none. */
export async function gatewayVersion(address: string): Promise<string | null> {
  const { text } = await callHttp(`${address}/`, { method: 'GET', headers: {}, idleMs: ANSWER_MS });
  try {
    const { version } = JSON.parse(text) as { version?: unknown };
    return typeof version === 'string' ? version : null;
  } catch {
    return null;
  }
}

/** Returns the error with both versions and what to upgrade when its cause is a name that the gateway lacks. */
export async function explainUnknownName(address: string, error: CapstanError): Promise<CapstanError> {
  if (!UNKNOWN_NAME.test(error.message)) return error;
  const own = toolVersion();
  // The refusal is known already: without a version it is still explained.
  const version = await gatewayVersion(address).catch(() => null);
  const message = `the gateway at ${address} (version ${version ?? 'unknown'}) does not support this command of the tool (version ${own}): ${error.message}`;
  return new ToolError(error.code, message, remedy(version === null ? -1 : compareVersions(version, own), own), { cause: error });
}

/** `order` is that of the gateway's version and the tool's. */
function remedy(order: number, own: string): string {
  if (order > 0) return 'The tool is older than the service. Upgrade the tool.';
  if (order === 0) return 'Both have the same version, but are different builds. Install the same build of both.';
  return `Upgrade the service to ${own}, schedulers before gateways, or use an older tool. The steps: capstan version --check`;
}
