/** A handler as OpenAI-compatible workers have it: a generator that knows its routes. */

interface OpenAiJob {
  readonly openai_route: string;
  readonly openai_method?: string;
  readonly openai_query?: string;
  readonly openai_input?: {
    readonly model?: string;
    readonly stream?: boolean;
    readonly messages?: readonly { readonly content: string }[];
    readonly fail?: string;
  };
}

interface Context {
  readonly signal: AbortSignal;
}

const CREATED = 1_700_000_000;

export async function* llm(input: OpenAiJob, context: Context): AsyncGenerator {
  switch (input.openai_route) {
    case '/v1/models':
      yield {
        object: 'list',
        data: [{ id: 'parrot-1', object: 'model', created: CREATED, owned_by: 'capstan' }],
        asked: input.openai_query,
      };
      return;
    case '/v1/models/parrot-1':
      yield input.openai_method === 'DELETE'
        ? { id: 'parrot-1', object: 'model', deleted: true }
        : { id: 'parrot-1', object: 'model', created: CREATED, owned_by: 'capstan' };
      return;
    case '/v1/chat/completions':
      yield* chat(input.openai_input ?? {}, context);
      return;
    case '/v1/raw':
      yield JSON.stringify(input);
      return;
    case '/v1/silence':
      await new Promise((_resolve, reject) => context.signal.addEventListener('abort', () => reject(new Error('stopped')), { once: true }));
      return;
    default:
      yield { object: 'error', message: `no route ${input.openai_route}`, type: 'NotFoundError', param: null, code: 404 };
  }
}

async function* chat(body: NonNullable<OpenAiJob['openai_input']>, context: Context): AsyncGenerator {
  const text = body.messages?.at(-1)?.content ?? '';
  const model = body.model ?? 'parrot-1';
  if (body.fail === 'before') throw new Error('out of ideas');
  if (body.fail === 'value') {
    yield { error: { message: 'temperature must be at most 2', type: 'invalid_request_error', param: 'temperature', code: 422 } };
    return;
  }
  if (body.stream !== true) {
    yield {
      id: 'chatcmpl-1',
      object: 'chat.completion',
      created: CREATED,
      model,
      choices: [{ index: 0, message: { role: 'assistant', content: text }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
    };
    return;
  }
  let said = 0;
  for (const word of text.split(' ')) {
    if (body.fail === 'later' && said === 2) throw new Error('lost the thread');
    const delta = { role: 'assistant', content: said === 0 ? word : ` ${word}` };
    yield `data: ${JSON.stringify({ id: 'chatcmpl-1', object: 'chat.completion.chunk', created: CREATED, model, choices: [{ index: 0, delta, finish_reason: null }] })}\n\n`;
    said += 1;
  }
  if (body.fail === 'never')
    await new Promise((_resolve, reject) => context.signal.addEventListener('abort', () => reject(new Error('stopped')), { once: true }));
  yield 'data: [DONE]\n\n';
}
