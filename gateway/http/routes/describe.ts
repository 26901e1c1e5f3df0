/** The entry of a route in the OpenAPI document. */
import type { FastifySchema } from 'fastify';
import type { z } from 'zod';

import { problemAnswer } from '../schemas.ts';

interface Shapes {
  readonly params?: z.ZodType;
  readonly querystring?: z.ZodType;
  readonly body?: z.ZodType;
  readonly headers?: z.ZodType;
}

const problems = {
  400: problemAnswer.describe('The request is invalid; the detail names the field and the rule.'),
  401: problemAnswer.describe('The key is missing, unknown, revoked, or not allowed to do this.'),
  404: problemAnswer.describe('The endpoint or job does not exist, or is already deleted.'),
  409: problemAnswer.describe('The current state does not allow this; the detail names the state.'),
  413: problemAnswer.describe('The body is too large.'),
  415: problemAnswer.describe('The body is not JSON, or has a Content-Encoding.'),
  429: problemAnswer.describe('Too many requests; retry after Retry-After seconds.'),
  500: problemAnswer.describe('An internal error.'),
  503: problemAnswer.describe('Temporarily unavailable; retry after Retry-After seconds.'),
};

/** Responses of routes that are not job operations: their own, and the errors that they may return. */
export function answers(
  own: Readonly<Record<number, z.ZodType>>,
  ...refusals: readonly (keyof typeof problems)[]
): Record<number, z.ZodType> {
  return { ...own, ...Object.fromEntries(refusals.map((status) => [status, problems[status]])) };
}

/** Of every operation on an endpoint. */
const AMBIGUOUS = 'Several environments have an endpoint of this name; the detail has the ids.';

export function described(
  { summary, description }: { readonly summary: string; readonly description: string },
  answer: z.ZodType,
  shapes: Shapes,
  more: Record<number, string> = {},
): FastifySchema {
  const { 409: _conflict, 413: tooLarge, 415: notJson, ...always } = problems;
  const response: Record<number, z.ZodType> = { 200: answer, ...always };
  if (shapes.body !== undefined) Object.assign(response, { 413: tooLarge, 415: notJson });
  const all = { 409: AMBIGUOUS, ...more, ...(more[409] === undefined ? {} : { 409: `${more[409]} ${AMBIGUOUS}` }) };
  for (const [status, text] of Object.entries(all)) response[Number(status)] = problemAnswer.describe(text);
  return { summary, description, tags: ['Queue'], security: [{ key: [] }], response, ...shapes };
}
