/**
 * Where agents and workers reach this gateway, if no setting says it: at the address that the gateway itself uses towards the scheduler,
 * since agents reach the scheduler, too. A gateway on the scheduler's own host cannot know by which of its addresses they do: it announces
 * the unspecified host, for which agents put the scheduler's (lib/unspecified-host.ts).
 */
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { X509Certificate } from 'node:crypto';
import { isIP } from 'node:net';

import { isOnThisHost, pemOf } from '../../lib/grpc-tls.ts';
import { hostOfScheduler, resolveCandidates, schedulerAddresses, systemLookUp } from '../../lib/owner/addresses.ts';
import { isUnspecified, urlHost } from '../../lib/unspecified-host.ts';
import type { GatewayConfig } from '../config.ts';

const UNSPECIFIED = '0.0.0.0';
const LOOPBACK = '127.0.0.1';

/** The port does not matter: nothing is sent. */
const ANY_PORT = 9;

export interface OwnHosts {
  /** Where the server for agents listens. */
  readonly listen: string;
  /** The host that others reach this one at: unspecified for the scheduler's, loopback where no other host takes part. */
  readonly reached: string;
}

type Settings = Pick<GatewayConfig, 'scheduler' | 'invokeHost' | 'grpcPlain' | 'tlsCert'>;

/**
 * Finds the hosts. A gateway that may not be called from other hosts, for want of certificates, stays on loopback.
 * @throws what the look-up or the system threw, while the scheduler's name or a route to it is missing.
 */
export async function ownHosts(config: Settings): Promise<OwnHosts> {
  const { invokeHost } = config;
  const own = await ownAddress(config);
  if (invokeHost === '') return { listen: own, reached: nameOf(own, config.tlsCert) };
  const isFound = isUnspecified(invokeHost) && own !== LOOPBACK;
  return { listen: invokeHost, reached: isFound ? nameOf(own, config.tlsCert) : invokeHost };
}

async function ownAddress({ scheduler, grpcPlain, tlsCert }: Settings): Promise<string> {
  const others = schedulerAddresses(scheduler).filter((address) => !isHere(address));
  const found = others.length > 0 ? await localAddressTowards(others.join(',')) : LOOPBACK;
  if (!isOnThisHost(`${urlHost(found)}:${ANY_PORT}`)) return found;
  // The scheduler's name may stand for loopback on its own host.
  return grpcPlain === 'anywhere' || tlsCert !== undefined ? UNSPECIFIED : LOOPBACK;
}

/** Returns an address, or a name of the certificate if that does not contain the address: agents check it. */
function nameOf(address: string, certificate: string | undefined): string {
  if (certificate === undefined || isUnspecified(address)) return address;
  const found = new X509Certificate(pemOf('CAPSTAN_TLS_CERT', certificate));
  if (found.checkIP(address) !== undefined) return address;
  return /DNS:([^,*\s]+)(?:,|$)/.exec(found.subjectAltName ?? '')?.[1] ?? address;
}

function isHere(address: string): boolean {
  return isOnThisHost(address) || isUnspecified(hostOfScheduler({ key: address, target: address }));
}

/** Returns this host's address on the way to the first scheduler that has a route. */
async function localAddressTowards(schedulers: string): Promise<string> {
  let failure: unknown;
  for (const candidate of await resolveCandidates(schedulers, systemLookUp)) {
    const host = hostOfScheduler({ key: candidate.key, target: candidate.target });
    const socket = createSocket(isIP(host) === 6 ? 'udp6' : 'udp4');
    try {
      socket.connect(ANY_PORT, host);
      await once(socket, 'connect');
      return socket.address().address;
    } catch (error) {
      failure = error;
    } finally {
      socket.close();
    }
  }
  throw failure;
}

/**
 * Returns the base URL of the HTTP API as workers reach it: the operator's, else this host's address; empty where the certificate does not
 * contain that.
 */
export function httpUrlOf(port: string, reached: string, { config, certificate }: UrlFacts): string {
  const { publicUrl, host } = config;
  if (publicUrl !== '') return publicUrl.replace(/\/+$/, '');
  const own = isUnspecified(host) ? reached : host;
  if (certificate === null) return `http://${urlHost(own)}:${port}`;
  const names = new X509Certificate(certificate.cert);
  const isCovered = (isIP(own) === 0 ? names.checkHost(own) : names.checkIP(own)) !== undefined;
  return isCovered ? `https://${urlHost(own)}:${port}` : '';
}

interface UrlFacts {
  readonly config: Pick<GatewayConfig, 'publicUrl' | 'host'>;
  readonly certificate: { readonly cert: Buffer } | null;
}

/** Returns the address that agents dial: the bound port on the host that they reach. */
export function announcedAddress(bound: string, { reached }: OwnHosts): string {
  const port = bound.slice(bound.lastIndexOf(':') + 1);
  return `${urlHost(reached)}:${port}`;
}
