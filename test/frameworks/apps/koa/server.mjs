import { endpoint } from '@capstan/sdk';
import multer from '@koa/multer';
import Router from '@koa/router';
import Koa from 'koa';
import mount from 'koa-mount';
import files from 'koa-static';
import { Readable } from 'node:stream';

const app = new Koa();
const router = new Router();
router.get('/', (context) => (context.body = { home: true }));
router.get('/items/:number', (context) => (context.body = { number: Number(context.params.number), q: context.query.q ?? '' }));
router.get('/go', (context) => context.redirect('/items/1'));
router.get('/cookie', (context) => {
  context.cookies.set('seen', 'yes');
  context.body = {};
});
router.get('/cookies', (context) => {
  const seen = context.cookies.get('seen');
  context.body = seen === undefined ? {} : { seen };
});
router.post('/upload', multer().single('file'), (context) => {
  context.body = { name: context.file.originalname, size: context.file.size };
});
router.get('/stream', (context) => {
  context.type = 'text/plain';
  context.body = Readable.from(['0\n', '1\n', '2\n']);
});
app.use(mount('/static', files('static')));
app.use(router.routes());

export default endpoint({ name: 'api', app });
