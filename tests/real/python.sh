# python.sh: Python: threads, subprocess, signals, multiprocessing, sqlite3, asyncio, mmap.
# needs: python3
set -eu
cat > work.py <<'END'
import asyncio, ctypes, hashlib, mmap, multiprocessing, os, signal, sqlite3, subprocess, sys, threading

def square(n):
    return n * n

if __name__ == "__main__":
    total, lock = 0, threading.Lock()
    def add(n):
        global total
        for _ in range(200):
            with lock:
                total += n
    threads = [threading.Thread(target=add, args=(i,)) for i in range(10)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    print("threads", total)
    for i in range(5):
        done = subprocess.run([sys.executable, "-S", "-c", f"import sys; print(sys.stdin.read() * {i}); sys.exit({i})"],
                              input="ab", capture_output=True, text=True)
        print("subprocess", done.returncode, done.stdout.strip())
    print(subprocess.run(["sh", "-c", "kill -TERM $$"]).returncode)
    for method in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            print(method, sum(pool.map(square, range(100))))
    database = sqlite3.connect("data.db")
    database.execute("pragma journal_mode=wal")
    database.execute("create table t (a integer, b text)")
    database.executemany("insert into t values (?, ?)", ((i, str(i) * 10) for i in range(2000)))
    database.commit()
    print(database.execute("select count(*), sum(a), max(b) from t where a % 3 = 0").fetchone())
    database.close()
    seen = []
    signal.signal(signal.SIGUSR1, lambda *_: seen.append(1))
    for _ in range(20):
        os.kill(os.getpid(), signal.SIGUSR1)
    print("signals", len(seen))
    async def echo():
        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        answers = []
        for i in range(20):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"{i}\n".encode())
            answers.append(int(await reader.readline()))
            writer.close()
        print("asyncio", sum(answers))
        server.close()
    async def handle(reader, writer):
        writer.write(await reader.readline())
        await writer.drain()
        writer.close()
    asyncio.run(echo())
    area = mmap.mmap(-1, 8192)
    if os.fork() == 0:
        area[:5] = b"child"
        os._exit(0)
    os.wait()
    print("mmap", area[:5])
    print("ctypes", ctypes.CDLL(None).getpid() == os.getpid())
    print(hashlib.sha256(open("work.py", "rb").read()).hexdigest()[:8])
    r, w = os.pipe()
    pid = os.posix_spawn("/bin/sh", ["sh", "-c", "echo spawned >&3"], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, w, 3)])
    os.waitpid(pid, 0)
    print(os.read(r, 100))
END
python3 work.py
rm -rf data.db* __pycache__
