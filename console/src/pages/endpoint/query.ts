/** What the endpoint's page shows. */
export type { EndpointData, ParameterData, WorkerData } from '../../api/graphql/gen/operations.ts';
