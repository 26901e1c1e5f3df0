import { json } from '@sveltejs/kit';

export async function POST({ request }) {
  const file = (await request.formData()).get('file');
  return json({ name: file.name, size: file.size });
}
