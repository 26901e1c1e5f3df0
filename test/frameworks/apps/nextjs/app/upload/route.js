export async function POST(request) {
  const file = (await request.formData()).get('file');
  return Response.json({ name: file.name, size: file.size });
}
