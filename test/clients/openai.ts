/** The public npm client `openai`, unmodified, against a whole stack. */
import test from 'ava';
import OpenAI, {
  APIError,
  AuthenticationError,
  InternalServerError,
  NotFoundError,
  RateLimitError,
  UnprocessableEntityError,
} from 'openai';
import type { ChatCompletionCreateParamsNonStreaming } from 'openai/resources/chat/completions';

import { stackUnderTest } from './stack-under-test.ts';

const under = stackUnderTest(test);

interface Counts {
  readonly jobs: { readonly completed: number; readonly failed: number; readonly inProgress: number };
}

function client(options: { readonly apiKey?: string; readonly maxRetries?: number } = {}): OpenAI {
  const { apiKey = under.stack.apiKey, maxRetries = 0 } = options;
  return new OpenAI({ apiKey, maxRetries, baseURL: `${under.stack.url}/v2/${under.endpoint('llm')}/openai/v1` });
}

/** The request, with what tells the handler under test how to fail. */
function saying(content: string, fail = ''): ChatCompletionCreateParamsNonStreaming {
  const request: ChatCompletionCreateParamsNonStreaming & { readonly fail: string } = {
    model: 'parrot-1',
    messages: [{ role: 'user', content }],
    fail,
  };
  return request;
}

async function health(): Promise<Counts> {
  return (await (await under.stack.call(`/v2/${under.endpoint('llm')}/health`)).json()) as Counts;
}

test('chat completions', async (t) => {
  const completion = await client().chat.completions.create(saying('hello there'));
  t.is(completion.choices[0]?.message.content, 'hello there');
  t.is(completion.model, 'parrot-1');
  t.regex(completion._request_id ?? '', /^sync-/);
});

test('chat completions, streamed', async (t) => {
  const stream = await client().chat.completions.create({ ...saying('one two three four'), stream: true });
  const said: string[] = [];
  for await (const chunk of stream) said.push(chunk.choices[0]?.delta.content ?? '');
  t.deepEqual(said, ['one', ' two', ' three', ' four']);
});

test('models: list, retrieve, delete', async (t) => {
  const models = client().models;
  const ids: string[] = [];
  for await (const model of models.list()) ids.push(model.id);
  t.deepEqual(ids, ['parrot-1']);
  t.is((await models.retrieve('parrot-1')).owned_by, 'capstan');
  t.true((await models.delete('parrot-1')).deleted);
  const error = await t.throwsAsync(models.retrieve('no-such-model'), { instanceOf: NotFoundError });
  t.is(error.message, '404 no route /v1/models/no-such-model');
});

test.serial('a handler’s failure is an error status, and is not repeated by the client', async (t) => {
  const before = await health();
  const error = await t.throwsAsync(client({ maxRetries: 2 }).chat.completions.create(saying('x', 'before')), {
    instanceOf: InternalServerError,
  });
  t.like(error, { status: 500, code: 'handler_error', type: 'server_error', message: '500 out of ideas' });
  const streamed = client({ maxRetries: 2 }).chat.completions.create({ ...saying('x', 'before'), stream: true });
  await t.throwsAsync(streamed, { instanceOf: InternalServerError });
  t.is((await health()).jobs.failed, before.jobs.failed + 2);
});

test('an error that the handler yields has its own status', async (t) => {
  const error = await t.throwsAsync(client().chat.completions.create(saying('x', 'value')), { instanceOf: UnprocessableEntityError });
  t.like(error, { param: 'temperature', type: 'invalid_request_error' });
});

test('an error in the middle of a stream reaches the one who reads it', async (t) => {
  const stream = await client().chat.completions.create({ ...saying('a b c d', 'later'), stream: true });
  const said: string[] = [];
  const error = await t.throwsAsync(
    async () => {
      for await (const chunk of stream) said.push(chunk.choices[0]?.delta.content ?? '');
    },
    { instanceOf: APIError },
  );
  t.deepEqual(said, ['a', ' b']);
  t.is(error.message, 'lost the thread');
});

test('a wrong key is an authentication error', async (t) => {
  const error = await t.throwsAsync(client({ apiKey: 'wrong' }).models.list(), { instanceOf: AuthenticationError });
  t.is(error.code, 'invalid_api_key');
});

test('a limit that is exceeded is a rate limit error with Retry-After', async (t) => {
  const limited = under.endpoint('limited');
  const models = new OpenAI({ apiKey: under.stack.apiKey, maxRetries: 0, baseURL: `${under.stack.url}/v2/${limited}/openai/v1` }).models;
  await models.list();
  const error = await t.throwsAsync(models.list(), { instanceOf: RateLimitError });
  t.is(error.code, 'rate_limit_exceeded');
  const seconds = Number(error.headers.get('retry-after'));
  t.true(seconds >= 1 && seconds <= 10);
});

test.serial('a caller that stops reading stops the handler', async (t) => {
  const stream = await client().chat.completions.create({ ...saying('a b', 'never'), stream: true });
  for await (const chunk of stream) {
    t.is(chunk.choices[0]?.delta.content, 'a');
    break;
  }
  const id = stream.controller.signal.aborted;
  t.true(id);
  const list = `/v2/${under.endpoint('llm')}/requests?status=CANCELLED`;
  for (;;) {
    const { total } = (await (await under.stack.call(list)).json()) as { total: number };
    if (total === 1) break;
  }
});
