import { cookies } from 'next/headers';

export async function GET() {
  const found = (await cookies()).getAll();
  return Response.json(Object.fromEntries(found.map(({ name, value }) => [name, value])));
}
