export function greet(request: Request): object {
  return { authorization: request.headers.get('authorization') };
}
