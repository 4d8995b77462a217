# node.sh: Node: worker threads, child processes, files, timers, an HTTP server and its client.
# needs: node
set -eu
cat > work.js <<'END'
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const { execSync, spawn, fork } = require('child_process');
const fs = require('fs');
const http = require('http');
if (process.argv[2] === 'forked') {
  process.on('message', (n) => process.send(n * 2, () => process.disconnect()));
} else if (!isMainThread) {
  let sum = 0;
  for (let i = 0; i < 1e6; i++) sum += (i * workerData) % 7;
  parentPort.postMessage(sum);
} else {
  (async () => {
    const sums = await Promise.all([1, 2, 3, 4].map((n) => new Promise((done, failed) => {
      const worker = new Worker(__filename, { workerData: n });
      worker.on('message', done);
      worker.on('error', failed);
    })));
    console.log('workers', sums.join(' '));
    console.log(execSync('echo from a child; exit 0').toString().trim());
    try { execSync('exit 3', { stdio: 'ignore' }); } catch (error) { console.log('status', error.status); }
    fs.mkdirSync('made');
    for (let i = 0; i < 50; i++) fs.writeFileSync(`made/${i}`, String(i).repeat(i));
    const sizes = await Promise.all(fs.readdirSync('made').map((f) => fs.promises.stat(`made/${f}`)));
    console.log('bytes', sizes.reduce((sum, s) => sum + s.size, 0));
    const server = http.createServer((request, response) => response.end('path ' + request.url));
    await new Promise((done) => server.listen(0, '127.0.0.1', done));
    for (let i = 0; i < 20; i++) {
      const text = await (await fetch(`http://127.0.0.1:${server.address().port}/${i}`)).text();
      if (text !== `path /${i}`) console.log('wrong', text);
    }
    server.closeAllConnections();
    server.close();
    const child = fork(__filename, ['forked']);
    child.send(21);
    console.log('forked', await new Promise((done) => child.on('message', done)));
    const sleeper = spawn('sleep', ['30']);
    sleeper.kill('SIGTERM');
    console.log('signal', await new Promise((done) => sleeper.on('exit', (code, signal) => done(signal))));
    process.exitCode = 9;
  })();
}
END
node work.js
