/** Decides what `npm start` does with one sample endpoint. */

export type SamplePlan =
  /** The endpoint already has the sample's build. */
  | { readonly kind: 'present' }
  /** It is new, or has an older build of the same sample. */
  | { readonly kind: 'deploy' }
  /** It needs a GPU and no host has one. */
  | { readonly kind: 'no-gpu' }
  /** It was deployed once and undeployed since. */
  | { readonly kind: 'undeployed' }
  /** Another build was deployed under its name: that endpoint belongs to the user. */
  | { readonly kind: 'replaced' };

export interface SampleFacts {
  /** Digest of the sample's build. */
  readonly digest: string;
  /** Digest of the build that is deployed under the sample's name; undefined when there is no such endpoint. */
  readonly deployed: string | undefined;
  /** Digest that an earlier start deployed; undefined when none did. */
  readonly recorded: string | undefined;
  readonly needsGpu: boolean;
  readonly hasGpu: boolean;
}

export function planSample({ digest, deployed, recorded, needsGpu, hasGpu }: SampleFacts): SamplePlan {
  if (deployed === digest) return { kind: 'present' };
  if (deployed !== undefined) return { kind: deployed === recorded ? 'deploy' : 'replaced' };
  if (recorded !== undefined) return { kind: 'undeployed' };
  return { kind: needsGpu && !hasGpu ? 'no-gpu' : 'deploy' };
}
