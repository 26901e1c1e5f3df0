/** Checks a gateway, and what it says of the nodes behind it. */
import { CapstanError } from '../../lib/errors.ts';
import { messageOf } from '../../lib/to-error.ts';
import { certificateProblem } from '../../client/certificate-trust.ts';
import { connectGateway } from '../../client/gateway-client.ts';
import { listNodes, type NodeRow } from '../api/nodes.ts';
import type { Environment, Settings } from '../../terminal/config.ts';
import { gatewayOf } from '../../client/gateway.ts';
import { explain } from '../../terminal/tool-error.ts';
import { fault, ok, warning, type Finding } from './finding.ts';
import { deviceFindings, gatewayFindings, isolationFindings } from './node.ts';

/** A clock that differs by more than this, or is earlier than this source, is reported. */
const CLOCK_SKEW_MS = 5000;
const OLDEST_TIME = Date.UTC(2025, 0, 1);
const ANSWER_MS = 3000;

/** The gateway's response also contains the time of its clock. */
export async function checkGateway(base: string): Promise<Finding[]> {
  let response: Response;
  try {
    response = await fetch(`${base}/docs`, { method: 'HEAD', signal: AbortSignal.timeout(ANSWER_MS) });
  } catch (error) {
    const problem = certificateProblem(base, error);
    if (problem !== null) return [fault('gateway', problem.message, problem.hint)];
    return [
      fault('gateway', `${base} does not respond`, 'Its log is in the data folder, logs/gateway.log, or in the journal of its service.'),
    ];
  }
  return [ok('gateway', `${base} responds`), checkClock(response.headers.get('date'))];
}

/** The service that a named gateway belongs to, as its API shows it to the key. */
export async function checkService(settings: Settings, environment: Environment): Promise<Finding[]> {
  const name = 'service';
  let target: { readonly url: string; readonly key: string };
  try {
    target = gatewayOf(settings, environment);
  } catch (error) {
    const { message, hint } = explain(error);
    return settings.url === undefined
      ? [fault(name, message, hint)]
      : [...(await checkGateway(settings.url)), warning(name, message, hint)];
  }
  const found = await checkGateway(target.url);
  if (found.some(({ verdict }) => verdict === 'fault')) return found;
  try {
    return [...found, ...nodesFound(await listNodes(connectGateway(target.url, target.key)))];
  } catch (error) {
    const { message, hint } = explain(error);
    return [...found, fault(name, error instanceof CapstanError ? message : messageOf(error), hint)];
  }
}

function nodesFound(nodes: readonly NodeRow[]): Finding[] {
  const connected = nodes.filter((node) => node.connected);
  const text = `${connected.length} of ${nodes.length} ${nodes.length === 1 ? 'node' : 'nodes'} connected`;
  if (connected.length === 0)
    return [warning('service', `${text}, as far as the key shows`, 'Jobs wait until an agent runs: capstan agent, or capstan up.')];
  return [
    ok('service', text),
    ...connected.flatMap((node) => {
      const devices = node.devices.map((device) => ({ ...device, model: device.name }));
      return [
        ...gatewayFindings(node.name, node.unreachableGateways),
        ...deviceFindings(node.name, { devices, deviceProblem: node.deviceProblem }),
        ...(node.isolation === null ? [] : isolationFindings(node.name, node.isolation)),
      ];
    }),
  ];
}

function checkClock(date: string | null): Finding {
  const name = 'clock';
  const now = Date.now();
  if (now < OLDEST_TIME)
    return fault(name, `${new Date(now).toISOString()} is in the past`, 'Set the clock: ttl and retention depend on it.');
  const theirs = date === null ? Number.NaN : Date.parse(date);
  if (Number.isNaN(theirs) || Math.abs(now - theirs) <= CLOCK_SKEW_MS) return ok(name, new Date(now).toISOString());
  const seconds = Math.round(Math.abs(now - theirs) / 1000);
  return warning(name, `differs from the gateway’s by ${seconds} s`, 'Synchronize the clocks of the hosts with NTP.');
}
