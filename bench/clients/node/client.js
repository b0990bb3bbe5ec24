'use strict';
// Runs the numbered script with mysql2.
//
//   NODE_PATH=…/node_modules node client.js host=… port=… file=… mid=… big=… [compress=1]
//
// It prints what the client was told, one JSON object per line; the fields are
// those of the Go type View.

const fs = require('fs');
const mysql = require('mysql2/promise');

const options = Object.fromEntries(process.argv.slice(2).map((arg) => {
  const eq = arg.indexOf('=');
  return [arg.slice(0, eq), arg.slice(eq + 1)];
}));
const size = (name) => Number(options[name]);

let thread = 0;
function say(step, word, fields) {
  process.stdout.write(JSON.stringify({ step, thread, word, ...fields }) + '\n');
}

function connect(user, password, database) {
  return mysql.createConnection({
    host: options.host, port: Number(options.port), user, password, database,
    compress: 'compress' in options, multipleStatements: true, charset: options.charset || 'utf8mb4',
    ssl: 'tls' in options ? { rejectUnauthorized: false } : undefined,
    infileStreamFactory: () => fs.createReadStream(options.file),
  });
}

// A value as the driver binds it: numbers as DOUBLE, dates as DATETIME, the
// rest as strings.
function asText(value) {
  if (value === null) return null;
  if (Buffer.isBuffer(value)) return '\\x' + value.toString('hex');
  if (value instanceof Date) return '2024-02-29 23:59:58.123000';
  return String(value);
}

// counts sums rows and affected rows over all results.
function counts(result) {
  const sum = { rows: 0, affected: 0, error: 0 };
  const add = (r) => {
    if (!r) return;
    if (!Array.isArray(r)) sum.affected += r.affectedRows;
    else if (r.length > 0 && (Array.isArray(r[0]) || r[0].constructor.name === 'ResultSetHeader')) r.forEach(add);
    else if (r.some((one) => one && one.constructor.name === 'ResultSetHeader')) r.forEach(add);
    else sum.rows += r.length;
  };
  add(result);
  return sum;
}

async function run(step, word, text, work, params) {
  const seen = { text, params: params && params.map(asText) };
  try {
    const [result] = await work();
    say(step, word, { ...seen, ...counts(result) });
  } catch (e) {
    say(step, word, { ...seen, error: e.errno });
  }
}

async function main() {
  const c = await connect('ann', 's3cret', 'shop');
  thread = c.threadId;
  say(1, 'Connect', { user: 'ann', db: 'shop' });
  const query = (step, text) => run(step, 'Query', text, () => c.query(text));
  const execute = (step, text, params) => run(step, 'Execute', text, () => c.execute(text, params), params);
  if ('charset' in options) {
    await query(2, "SELECT '\u4e2d\u6587', '\u8a93'");
    await c.end();
    return;
  }
  await query(3, 'TRUNCATE TABLE kinds');
  const insert = 'INSERT INTO kinds (id,i8,i16,i32,i64,u8,u16,u32,u64,f,d,n,dt,ts,ti,s,b) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)';
  const nulls = (n) => Array(n).fill(null);
  const all = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
  await execute(10, insert, [1, -128, -32768, -2147483648, '-9223372036854775808', 255, 65535, 4294967295, '18446744073709551615',
    1.5, -2.25e-10, '-12345678901234567890.123456', '2024-02-29', new Date(2024, 1, 29, 23, 59, 58, 123), '-30:00:01.000005',
    'it\'s "quoted", a \\ and a ?', all]);
  await execute(11, insert, [2, 127, 32767, 2147483647, '9223372036854775807', 0, 1, 2, 3, 0, 1e300, '0.000001', '1000-01-01',
    '9999-12-31 00:00:00', '08:07:06', '', Buffer.alloc(0)]);
  await execute(12, insert, [3, ...nulls(16)]);
  await execute(13, insert, [4, null, 1, null, 2, null, 3, null, 4, null, 0.5, ...nulls(4), 'd\u00e9 \u4e2d \u{1f600}', null]);
  await execute(14, insert, [5, ...nulls(14), 'x'.repeat(255), all]);
  await execute(15, insert, [6, ...nulls(14), 'm'.repeat(size('mid')), Buffer.alloc(size('mid'), 'n')]);
  await execute(16, insert, [7, ...nulls(14), 'B'.repeat(size('big')), null]);
  await execute(19, insert, [3, ...nulls(16)]);
  await execute(22, 'SELECT * FROM kinds WHERE id < ? AND id > ? ORDER BY id', [6, 0]);
  await execute(23, "SELECT id, '?', `s` /* ? */ FROM kinds WHERE s = ? OR s IS NULL -- ?", ['']);
  await execute(24, 'SELECT id FROM kinds WHERE id = ?', [-1]);
  await execute(25, 'CALL plain(?)', [3]);
  await c.unprepare('SELECT id FROM kinds WHERE id = ?');
  await query(30, 'SELEC 1');
  await query(31, 'SELECT * FROM nowhere');
  await query(32, 'INSERT INTO kinds (id) VALUES (1)');
  await run(33, 'Prepare', 'SELEC ?', () => c.execute('SELEC ?', [1]));
  await run(34, 'Prepare', 'SELECT * FROM nowhere WHERE a = ?', () => c.execute('SELECT * FROM nowhere WHERE a = ?', [1]));
  await query(40, 'SELECT 1; INSERT INTO kinds (id) VALUES (50),(51); SELECT id FROM kinds WHERE id >= 50; INSERT INTO kinds (id) VALUES (52)');
  await query(41, 'CALL several(4, @total)');
  await query(42, `LOAD DATA LOCAL INFILE '${options.file}' INTO TABLE loaded FIELDS TERMINATED BY ','`);
  await query(43, 'SELECT * FROM loaded');
  await run(50, 'Ping', undefined, async () => { await c.ping(); return [null]; });
  await query(51, 'USE other');
  await run(52, 'Change user', undefined, async () => {
    await c.changeUser({ user: 'bob', password: 's3cret', database: 'shop' });
    return [null];
  });
  await query(53, 'SELECT USER(), DATABASE()');
  if (typeof c.reset === 'function') {
    await run(54, 'Reset connection', undefined, async () => { await c.reset(); return [null]; });
  }
  await execute(55, 'SELECT ? + 1', [41]);
  try {
    await connect('ann', 'wrong', 'shop');
  } catch (e) {
    say(58, 'Refused', { user: 'ann', error: e.errno });
  }
  await c.end();
  say(60, 'Quit');
}

main();
