/** A route's entry in the OpenAPI document. */
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
  400: problemAnswer.describe('The request is wrong; the detail names the field and the rule.'),
  401: problemAnswer.describe('The key is missing, unknown, revoked, or may not do this.'),
  404: problemAnswer.describe('There is no such endpoint or job (any more).'),
  409: problemAnswer.describe('The present state forbids it; the detail says what it is.'),
  413: problemAnswer.describe('The body is too large.'),
  415: problemAnswer.describe('The body is not JSON, or is encoded.'),
  429: problemAnswer.describe('Too many requests; try again after Retry-After seconds.'),
  500: problemAnswer.describe('A fault of the service.'),
  503: problemAnswer.describe('Not available right now; try again after Retry-After seconds.'),
};

/** Answers of what is no operation on jobs: its own, and the problems that it may be refused with. */
export function answers(
  own: Readonly<Record<number, z.ZodType>>,
  ...refusals: readonly (keyof typeof problems)[]
): Record<number, z.ZodType> {
  return { ...own, ...Object.fromEntries(refusals.map((status) => [status, problems[status]])) };
}

export function described(
  summary: string,
  description: string,
  answer: z.ZodType,
  shapes: Shapes,
  more: Record<number, string> = {},
): FastifySchema {
  const { 409: _conflict, 413: tooLarge, 415: notJson, ...always } = problems;
  const response: Record<number, z.ZodType> = { 200: answer, ...always };
  if (shapes.body !== undefined) Object.assign(response, { 413: tooLarge, 415: notJson });
  for (const [status, text] of Object.entries(more)) response[Number(status)] = problemAnswer.describe(text);
  return { summary, description, tags: ['Queue'], security: [{ key: [] }], response, ...shapes };
}
