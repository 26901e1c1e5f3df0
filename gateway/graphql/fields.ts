/** What the fields of one request share. */
import type { ArchiveContents } from '../../lib/archive-contents.ts';
import type { ClusterRow } from '../../lib/owner/cluster-list.ts';
import type { EndpointInfo } from '../../proto/gen/capstan/v1/control.ts';
import type { ControlCalls } from './control-calls.ts';
import type * as Schema from './gen/schema.ts';

export interface Fields {
  /** Calls of queries, and of mutations. */
  readonly calls: ControlCalls;
  readonly changes: ControlCalls;
  /** To the cell of the caller's account. */
  readonly call: ControlCalls['own'];
  readonly change: ControlCalls['own'];
  readonly shape: (info: EndpointInfo) => Schema.Endpoint;
  /** Several fields of a query need them; they are read once. All environments: an empty name. */
  readonly endpointsOf: (environment: string) => Promise<EndpointInfo[]>;
  /** What a build of the caller's account holds, by its digest in this argument. */
  readonly contentsOf: (argument: string, digest: string) => Promise<ArchiveContents>;
  readonly isOperator: boolean;
  /** Aborted once the gateway is about to close. */
  readonly draining: AbortSignal;
  /** Asks any scheduler, with the gateway's own token. */
  readonly cluster: () => Promise<ClusterRow>;
}
