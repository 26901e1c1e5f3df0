/** What the endpoint's page shows, in one query. */

export interface WorkerData {
  readonly id: string;
  readonly node: string;
  readonly state: string;
  readonly reason: string | null;
  readonly detail: string | null;
  readonly jobs: number;
  readonly maxConcurrency: number;
  readonly devices: readonly string[];
  readonly decision: string;
  readonly runtime: string;
  readonly start: { readonly artifactMs: number; readonly startedMs: number; readonly loadedMs: number };
}

export interface ParameterData {
  readonly name: string;
  readonly required: boolean;
  readonly type: string | null;
  readonly schema: string | null;
  readonly takesBody: boolean;
}

export interface EndpointData {
  readonly id: string;
  readonly name: string;
  readonly kind: 'QUEUE' | 'LOAD_BALANCED';
  readonly url: string;
  readonly hostUrl: string | null;
  readonly environment: string;
  readonly release: string;
  readonly build: { readonly digest: string } | null;
  readonly routes: readonly { readonly method: string; readonly path: string; readonly function: string }[];
  readonly functions: readonly string[];
  readonly signatures: readonly { readonly name: string; readonly parameters: readonly ParameterData[] }[];
  readonly envNames: readonly string[];
  readonly workers: { readonly total: number; readonly max: number };
  readonly queue: {
    readonly inQueue: number;
    readonly inProgress: number;
    readonly reason: string | null;
    readonly detail: string | null;
  };
  readonly scaling: {
    readonly counts: Readonly<Record<string, number>>;
    readonly workers: readonly WorkerData[];
    readonly rejections: readonly {
      readonly reason: string;
      readonly nodes: number;
      readonly examples: readonly { readonly node: string; readonly detail: string }[];
    }[];
    readonly decisions: readonly { readonly at: string; readonly kind: string; readonly worker: string | null; readonly reason: string }[];
    readonly failedStarts: number;
    readonly lastStartError: string | null;
  } | null;
}

export const ENDPOINT_QUERY = `query ($id: ID!) {
  endpoint(id: $id) {
    id name kind url hostUrl environment release build { digest } functions envNames
    routes { method path function }
    signatures { name parameters { name required type schema takesBody } }
    workers { total max }
    queue { inQueue inProgress reason detail }
    scaling {
      counts failedStarts lastStartError
      workers { id node state reason detail jobs maxConcurrency devices decision runtime start { artifactMs startedMs loadedMs } }
      rejections { reason nodes examples { node detail } }
      decisions { at kind worker reason }
    }
  }
}`;
