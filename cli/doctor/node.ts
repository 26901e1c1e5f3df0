/** Findings about a node, from the facts that its agent reports. Pure. */
import { fault, ok, warning, type Finding } from './finding.ts';

interface Reached {
  readonly dialed: string;
  readonly reason: string;
}

interface Devices {
  readonly devices: readonly { readonly model: string; readonly uuid: string; readonly healthy: boolean; readonly problem: string }[];
  readonly deviceProblem: string;
}

interface Isolation {
  readonly processes: string;
  readonly processNetworks: readonly string[];
  readonly missing: readonly { readonly without: string; readonly reason: string; readonly remedy: string }[];
}

/** Gateways that the agent of a node does not reach. */
export function gatewayFindings(name: string, unreachable: readonly Reached[]): Finding[] {
  const hint =
    'Requests of load-balanced endpoints get none of its workers there: open the port between the hosts, or set CAPSTAN_INVOKE_HOST, ' +
    'CAPSTAN_INVOKE_PORT or CAPSTAN_INVOKE_ADDRESS of the gateway (docs/install.md).';
  return unreachable.map(({ dialed, reason }) => fault(`agent of ${name}`, `does not reach the gateway at ${dialed}: ${reason}`, hint));
}

/** Problems of GPUs that a node reports. */
export function deviceFindings(name: string, { devices, deviceProblem }: Devices): Finding[] {
  const ill = devices.filter(({ healthy }) => !healthy).map(({ model, uuid, problem }) => `${model || uuid}: ${problem}`);
  if (ill.length === 0 && deviceProblem !== '') ill.push(deviceProblem);
  return ill.map((text) => warning(`GPU of ${name}`, text, 'It is not assigned to workers until it is healthy again (docs/nodes.md).'));
}

/** The level of isolation of a node's workers, and what is missing for a stronger one. */
export function isolationFindings(name: string, { processes, processNetworks, missing }: Isolation): Finding[] {
  const finding = `isolation of ${name}`;
  const onHost = processNetworks.includes('outbound') ? '' : "; workers have the host's network, which is weaker (worker-network.md)";
  const level = LEVELS[processes] ?? processes;
  const text = `${level}${onHost}`;
  const lacks = missing.map(({ without, reason, remedy }) => `${without}: ${reason}${remedy === '' ? '' : ` (${remedy})`}`);
  if (processes === 'sandbox' && lacks.length === 0) return [ok(finding, text)];
  return [warning(finding, text, `Missing: ${lacks.join('; ') || 'the setting CAPSTAN_ISOLATION names this level'}`)];
}

const LEVELS: Readonly<Record<string, string>> = {
  sandbox: 'sandbox: workers see only their build and the system',
  user: 'user: each worker has a user of its own',
  none: "none: workers run as the agent's user and can read whatever it can read",
};
