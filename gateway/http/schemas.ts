/** Shapes of requests and responses, used for validation and for the OpenAPI document. */
import { z } from 'zod';

import { MAX_TAGS, TAG, TAG_RULE } from '../../lib/job-tags.ts';
import { RawJson } from '../json/body.ts';

const MAX_URL = 2048;

function milliseconds(min: number, max: number): z.ZodType<number> {
  const rule = `must be an integer between ${min} and ${max} milliseconds`;
  return z.number(rule).int(rule).min(min, rule).max(max, rule);
}

function isHttpUrl(text: string): boolean {
  // The URL parser drops control characters and white space; a URL must not change on the way.
  // oxlint-disable-next-line no-control-regex
  if (!text.isWellFormed() || /[\u0000-\u0020\u007f]/.test(text) || !/^https?:\/\//i.test(text)) return false;
  return URL.canParse(text);
}

/** Format of a URL, for the OpenAPI document. */
const urlShape = { format: 'uri', pattern: '^[hH][tT][tT][pP][sS]?://' } as const;

const httpUrl = z
  .string('must be an http or https URL')
  .max(MAX_URL, `must be at most ${MAX_URL} characters long`)
  .refine(isHttpUrl, 'must be an http or https URL');

const policySchema = z
  .object(
    {
      executionTimeout: milliseconds(5000, 604_800_000).nullish().meta({
        description: 'Longest run time of the job once a worker has started it, ms. Defaults to the endpoint’s setting (600000).',
      }),
      ttl: milliseconds(10_000, 604_800_000).nullish().meta({
        description: 'Lifetime of the job from its submission, ms; then it is deleted, whatever its state. 86400000 when absent.',
      }),
      lowPriority: z.boolean('must be true or false').nullish().meta({ description: 'The job does not make workers scale up.' }),
    },
    'must be an object',
  )
  .meta({ description: 'Execution policy of this job.' });

/** Passed on to the function; the service does not interpret it. */
const s3Member = (description: string): z.ZodType => z.unknown().optional().meta({ description });
const s3Members = {
  accessId: s3Member('Bucket access key id.'),
  accessSecret: s3Member('Bucket secret.'),
  bucketName: s3Member('Bucket name.'),
  endpointUrl: s3Member('URL of the S3-compatible storage.'),
};
const s3ConfigSchema = z.looseObject(s3Members, 'must be an object').meta({
  description:
    'Storage credentials, passed to the function unchanged: any object, usually with these members. Encrypted at rest, never returned.',
});

const tagsSchema = z
  .array(z.string('must be a string').regex(TAG, TAG_RULE), 'must be an array')
  .max(MAX_TAGS, `must have at most ${MAX_TAGS} items`)
  .meta({ description: 'Words to find the job by, for instance a customer or an experiment.' });

const inputSchema = z
  .custom<RawJson>((value) => value instanceof RawJson && value.isObject, {
    error: (issue) => (issue.input === undefined ? 'is required and must be an object' : 'must be an object'),
  })
  .meta({ type: 'object', additionalProperties: true, description: 'Parameters of the handler function. Passed on byte for byte.' });

/** Unknown top-level keys are ignored. */
export const submissionSchema = z.object(
  {
    input: inputSchema,
    webhook: httpUrl
      .meta(urlShape)
      .nullish()
      .meta({ description: 'URL that is called when the job has ended. Must not resolve to a private address.' }),
    policy: policySchema.nullish(),
    s3Config: s3ConfigSchema.nullish(),
    tags: tagsSchema.nullish(),
  },
  'must be a JSON object with the key input',
);

export const submissionHeaders = z.object({
  'idempotency-key': z.string().optional().meta({
    minLength: 1,
    maxLength: 255,
    pattern: '^[!-~]{1,255}$',
    description: 'Visible ASCII. For 24 hours, the same key with the same body returns the first job.',
  }),
});

export type Submission = z.output<typeof submissionSchema>;

/** Body of /cancel and /retry on the bare path. */
export const referenceSchema = z
  .object({ id: z.string('must be a string').optional().meta({ minLength: 1, description: 'Id of the job.' }) }, 'must be a JSON object')
  .nullish();

/** An ignored body, which some clients send. */
export const unusedBody = z.object({}, 'must be a JSON object').nullish();

/**
 * A number in a query; `read` returns it, or null when it breaks the rule. `described` is its text in the OpenAPI
 * document.
 */
function queryNumber(
  rule: string,
  read: (text: string) => number | null,
  described: object,
): z.ZodType<number | undefined, string | undefined> {
  return z
    .custom<string>((value) => typeof value === 'string' && read(value) !== null, rule)
    .transform((text) => read(text) ?? 0)
    .optional()
    .meta({ ...described });
}

function waitSchema(byDefault: number, min: number, max: number): z.ZodType<number | undefined, string | undefined> {
  const read = (text: string): number | null =>
    /^[+-]?\d{1,400}(\.\d{1,400})?(e[+-]?\d{1,3})?$/i.test(text) ? Math.min(max, Math.max(min, Math.round(Number(text)))) : null;
  return queryNumber('must be a number of milliseconds', read, {
    type: 'number',
    description: `Longest wait, ms; ${byDefault} when absent, limited to ${min} to ${max}.`,
  });
}

/** Wait of /runsync and /status-sync, ms. */
export const DEFAULT_WAIT_MS = 90_000;
/** Wait of /stream, ms: about 10 s, minus a margin for clients that time out after exactly 10 s (Python's does). */
export const DEFAULT_STREAM_WAIT_MS = 8_000;

export const waitQuery = z.object({ wait: waitSchema(DEFAULT_WAIT_MS, 1000, 300_000) });
/** `<attempt>.<index>`: the position of a reader in a job's stream. */
export const CURSOR_HEADER = 'capstan-stream-cursor';
const CURSOR = /^(\d{1,9})\.(\d{1,9})$/;
const cursorSchema = z
  .string('must occur once')
  .regex(CURSOR, `must be a value of the header ${CURSOR_HEADER}`)
  .transform((text) => {
    const [token = 0, nextIndex = 0] = text.split('.').map(Number);
    return { token, nextIndex };
  });

export const streamQuery = z.object({
  wait: waitSchema(DEFAULT_STREAM_WAIT_MS, 0, 10_000),
  after: cursorSchema.optional().meta({
    description: `The reader’s position: the ${CURSOR_HEADER} of the last response that arrived. All later chunks are returned, including ones that were returned before.`,
  }),
});
/** The error when a job's id is allowed in several places and given in none. */
export const ID_RULE = 'is required, as a path segment, as ?id= or as {"id":…}';
/** The error when only the query can hold the id. */
export const idQuery = z.object({
  id: z
    .string({ error: ({ input }) => (input === undefined ? ID_RULE : 'must occur once') })
    .meta({ minLength: 1, description: 'Id of the job.' }),
});
export const referenceQuery = z.object({
  id: z.string('must occur once').optional().meta({ minLength: 1, description: 'Id of the job, when it is not in the body.' }),
});

const statusNames = ['IN_QUEUE', 'IN_PROGRESS', 'COMPLETED', 'FAILED', 'CANCELLED', 'TIMED_OUT'] as const;
const MAX_PAGE = 100;
export const DEFAULT_PAGE = 20;

function count(minimum: number, maximum: number, description: string): z.ZodType<number | undefined, string | undefined> {
  const read = (text: string): number | null => {
    const value = /^\d{1,10}$/.test(text) ? Number(text) : -1;
    return value >= minimum && value <= maximum ? value : null;
  };
  return queryNumber(`must be an integer between ${minimum} and ${maximum}`, read, { type: 'integer', minimum, maximum, description });
}

export const requestsQuery = z.object({
  status: z
    .enum(statusNames, `must be one of ${statusNames.join(', ')}`)
    .optional()
    .meta({ description: 'Only jobs in this state.' }),
  limit: count(1, MAX_PAGE, `Jobs on a page; ${DEFAULT_PAGE} when absent.`),
  offset: count(0, 2_147_483_647, 'Jobs to skip; 0 when absent.'),
});

/** Format of ids, for the OpenAPI document; other ids get 404. */
const idShape = { minLength: 1, maxLength: 128, pattern: '^[!-~]{1,128}$' } as const;

export const endpointParams = z.object({
  endpointId: z.string().meta({ ...idShape, description: 'Id of the endpoint, or its name in the account of the key.' }),
});
export const jobParams = endpointParams.extend({ jobId: z.string().meta({ ...idShape, description: 'Id of the job.' }) });

/** A submission of an input and nothing else, as most are: the scanner of bodies has found out what the schema would. */
function isInputOnly(body: unknown): boolean {
  if (typeof body !== 'object' || body === null) return false;
  for (const name in body) if (name !== 'input') return false;
  return 'input' in body && body.input instanceof RawJson && body.input.isObject;
}

/** The router sets all parameters of a path, as strings. */
const isRouted = (): boolean => true;

const decided = new Map<z.ZodType, (data: unknown) => boolean>([
  [submissionSchema, isInputOnly],
  [endpointParams, isRouted],
  [jobParams, isRouted],
]);

/** Returns what tells, for less than a run of the schema, that data is as the schema would return it; undefined without. */
export function decidedBy(schema: z.ZodType): ((data: unknown) => boolean) | undefined {
  return decided.get(schema);
}

// ---------------------------------------------------------------- answers (documentation only: answers are written by hand)

const status = z.enum(statusNames);
const id = z.string().meta({ example: 'eaebd6e7-6a92-7bb8-a996-f915ac5ea99d-u1' });

export const submittedResponse = z.object({ id, status }).meta({ description: 'The job is durable.' });

export const statusResponse = z
  .object({
    id,
    status,
    output: z.any().optional().meta({ description: 'What the function returned; the last progress update while IN_PROGRESS.' }),
    error: z.string().optional().meta({ description: 'The function’s error message.' }),
    delayTime: z.int().optional().meta({ description: 'Submission to the start of the attempt, ms.' }),
    executionTime: z.int().optional().meta({ description: 'Duration of the attempt, ms.' }),
    retries: z.int().optional().meta({ description: 'Attempts beyond the first, when there were any.' }),
    workerId: z.string().optional().meta({ description: 'Worker of the current or last attempt.' }),
    queueReason: z.string().optional().meta({ description: 'Why the job is waiting, where a reason is known.' }),
  })
  .meta({ description: 'The current state of the job.' });

export const changedResponse = z
  .object({ id, status, delayTime: z.int().optional(), executionTime: z.int().optional() })
  .meta({ description: 'The job’s new state.' });

export const streamAnswer = z
  .object({ status, stream: z.array(z.object({ output: z.any() })), error: z.string().optional() })
  .meta({ description: 'The unread chunks; after the end of the job, all remaining ones.' });

export const purgedResponse = z
  .object({ removed: z.int(), status: z.literal('completed') })
  .meta({ description: 'Number of queued jobs that were cancelled.' });

export const requestsAnswer = z
  .object({ requests: z.array(statusResponse), total: z.int(), offset: z.int(), limit: z.int(), hasMore: z.boolean() })
  .meta({ description: 'A page of the endpoint’s jobs, newest first. Outputs above 64 KiB are omitted; read them with /status.' });

export const healthAnswer = z
  .object({
    jobs: z.object({ completed: z.int(), failed: z.int(), inProgress: z.int(), inQueue: z.int(), retried: z.int() }),
    workers: z.object({
      idle: z.int(),
      initializing: z.int(),
      ready: z.int(),
      running: z.int(),
      throttled: z.int(),
      unhealthy: z.int(),
    }),
  })
  .meta({ description: 'Counts of jobs and workers.' });

export const aboutResponse = z
  .object({ name: z.string(), version: z.string(), docs: z.string(), openapi: z.string() })
  .meta({ description: 'Name and version of the service, and the URL of its API description.' });

export const okAnswer = z.object({ status: z.literal('ok') }).meta({ description: 'The check passed.' });

export const openAiErrorAnswer = z
  .object({ error: z.object({ message: z.string(), type: z.string(), param: z.string().nullable(), code: z.string().nullable() }) })
  .meta({ example: { error: { message: 'body: must be a JSON object', type: 'invalid_request_error', param: 'body', code: null } } });

export const problemAnswer = z
  .object({
    status: z.int(),
    title: z.string(),
    detail: z.string(),
    id: z.string().optional().meta({ description: 'The deleted job that the Idempotency-Key belongs to.' }),
  })
  .meta({ example: { status: 400, title: 'Bad Request', detail: 'bad request: input: is required and must be an object' } });
