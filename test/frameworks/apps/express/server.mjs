import { endpoint } from '@capstan/sdk';
import express from 'express';
import multer from 'multer';

const app = express();
app.use('/static', express.static('static'));
app.get('/', (_request, response) => response.json({ home: true }));
app.get('/items/:number', (request, response) => response.json({ number: Number(request.params.number), q: request.query.q ?? '' }));
app.get('/go', (_request, response) => response.redirect('/items/1'));
app.get('/cookie', (_request, response) => response.cookie('seen', 'yes').json({}));
app.get('/cookies', (request, response) => {
  const pairs = (request.headers.cookie ?? '').split('; ').filter(Boolean);
  response.json(Object.fromEntries(pairs.map((pair) => pair.split('='))));
});
app.post('/upload', multer().single('file'), (request, response) =>
  response.json({ name: request.file.originalname, size: request.file.size }),
);
app.get('/stream', (_request, response) => {
  for (let number = 0; number < 3; number += 1) response.write(`${number}\n`);
  response.end();
});

export default endpoint({ name: 'api', app });
