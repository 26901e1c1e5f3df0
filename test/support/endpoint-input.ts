/** An endpoint as a deployment tells the scheduler's core. */
import { DEFAULT_FIELDS } from '../../lib/endpoint-settings.ts';
import type { EndpointInput } from '../../scheduler/core/state/endpoints.ts';

/** A queue of one function that is called like it. */
export function queueInput(name: string, more: Partial<EndpointInput> = {}): EndpointInput {
  return {
    name,
    kind: 'QUEUE',
    ...DEFAULT_FIELDS,
    scalerType: 'QUEUE_DELAY',
    routes: {},
    limits: {},
    functions: [{ name, module: name, parameters: [], callStyle: 'CALL_STYLE_WHOLE' }],
    envSealed: null,
    envDigest: '',
    ...more,
  };
}
