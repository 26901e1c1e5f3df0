/** A call over HTTP with its whole answer. */
import { request, type Dispatcher } from 'undici';

export interface HttpReply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
  /** Empty where the text is no JSON. */
  readonly json: Readonly<Record<string, unknown>>;
}

export async function answerTo(
  url: string,
  options: Omit<Dispatcher.RequestOptions, 'path' | 'origin'> & { dispatcher: Dispatcher },
): Promise<HttpReply> {
  const { statusCode: status, headers, body } = await request(url, options);
  const text = await body.text();
  return { status, headers, text, json: parsed(text) };
}

function parsed(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return {};
  }
}
