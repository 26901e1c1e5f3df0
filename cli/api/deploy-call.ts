/** Deploys through a gateway of this version or of an earlier one, which knows neither the commit nor what only documents show. */
import type { GatewayClient } from '../../client/gateway-client.ts';
import {
  DEPLOY,
  DEPLOY_KEEPING,
  DEPLOY_SOURCE,
  type DeployKeepingVariables,
  type DeployResult,
  type DeploySourceVariables,
} from '../../client/graphql/gen/operations.ts';
import { CapstanError } from '../../lib/errors.ts';

export interface DeployCall {
  readonly environment: string;
  readonly build: string;
  /** The JSON form of EndpointSpec. */
  readonly endpoints: readonly object[];
  readonly source: DeploySourceVariables['source'] | null;
  /** Settings that keep their present values. */
  readonly keep: DeployKeepingVariables['keep'];
}

/** The form of a function, as far as it is changed here. */
interface FunctionForm {
  readonly parameters?: readonly { readonly defaultValue?: string }[];
  readonly description?: string;
  readonly classSpec?: { readonly methods?: readonly FunctionForm[] };
}

/** Such a gateway refuses what it does not know: the deployment is sent again without it. @throws CapstanError every other refusal. */
export async function callDeploy(client: Pick<GatewayClient, 'query'>, call: DeployCall): Promise<DeployResult> {
  const { source, keep, ...variables } = call;
  try {
    // A gateway that knows no settings to keep refuses: leaving them out would change them.
    if (keep.length > 0) return await client.query(DEPLOY_KEEPING, { ...variables, source, keep });
    return source === null ? await client.query(DEPLOY, variables) : await client.query(DEPLOY_SOURCE, { ...variables, source });
  } catch (error) {
    if (!(error instanceof CapstanError)) throw error;
    const without = known(call, error.message);
    if (without === undefined) throw error;
    return callDeploy(client, without);
  }
}

/** Undefined when the refusal is about something else. */
function known(call: DeployCall, refusal: string): DeployCall | undefined {
  if (call.source !== null && refusal.includes('SourceRevisionInput')) return { ...call, source: null };
  if (!/has no field \\?"(?:description|defaultValue)\\?"/.test(refusal)) return undefined;
  const endpoints = call.endpoints.map((spec) =>
    'functions' in spec ? { ...spec, functions: (spec.functions as readonly FunctionForm[]).map(withoutTexts) } : spec,
  );
  return JSON.stringify(endpoints) === JSON.stringify(call.endpoints) ? undefined : { ...call, endpoints };
}

function withoutTexts({ description: _text, parameters, classSpec, ...form }: FunctionForm): FunctionForm {
  return {
    ...form,
    ...(parameters !== undefined && { parameters: parameters.map(({ defaultValue: _value, ...parameter }) => parameter) }),
    ...(classSpec !== undefined && { classSpec: { ...classSpec, methods: (classSpec.methods ?? []).map(withoutTexts) } }),
  };
}
