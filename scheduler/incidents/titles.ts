/** How people call things, and how commands of the tool name them. */
import type { EndpointRecord } from '../core/state/endpoints.ts';
import type { NodeConfig } from '../core/state/fleet.ts';

/** What waits because of an incident. */
export interface Waiting {
  readonly jobs: number;
  readonly requests: number;
}

const PLAIN = /^[\w.@%+:,/=-]+$/;

/** The name of an endpoint, with its environment unless that is the default one. */
export function endpointTitle({ config: { name, environment } }: EndpointRecord): string {
  return environment === 'default' ? name : `${name} (${environment})`;
}

/** `<name>`, or `<name> --env <environment>`, as arguments of the tool. */
export function endpointArguments({ config: { name, environment } }: EndpointRecord): string {
  return environment === 'default' ? quoted(name) : `${quoted(name)} --env ${quoted(environment)}`;
}

/** A node as an argument of the tool: its id where its name, which its host chose, could be taken for an option or more than a word. */
export function nodeArgument({ id, name }: NodeConfig): string {
  return /^[A-Za-z0-9][\w.-]*$/.test(name) ? name : id;
}

/** A word of a shell's command line. */
export function quoted(text: string): string {
  return PLAIN.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

/** `2 endpoints`, `1 endpoint`. */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

/** `5 jobs wait`, `5 jobs, 1 request wait`; empty if nothing does. */
export function waitText({ jobs, requests }: Waiting): string {
  const parts = [...(jobs > 0 ? [counted(jobs, 'job')] : []), ...(requests > 0 ? [counted(requests, 'request')] : [])];
  if (parts.length === 0) return '';
  return `${parts.join(', ')} ${jobs + requests === 1 ? 'waits' : 'wait'}`;
}
