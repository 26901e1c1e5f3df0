/** The handler of both subjects: the load-balanced endpoint and the bare server. */
export function health(): object {
  return { status: 'healthy', service: 'bench', version: '1.0.0' };
}
