/** The handler of both sides: the load-balanced endpoint's, and the bare server's. */
export function health(): object {
  return { status: 'healthy', service: 'bench', version: '1.0.0' };
}
