# redis.sh: redis-server with background saves under redis-benchmark, ended by SHUTDOWN.
# needs: redis-server redis-benchmark redis-cli
# ports: 1
set -eu
redis-server --port "$PORT1" --bind 127.0.0.1 --save '' --appendonly yes --io-threads 2 \
    --daemonize no --logfile log --dir "$PWD" &
server=$!
for _ in $(seq 1 200); do
    redis-cli -p "$PORT1" ping > /dev/null 2>&1 && break
    sleep 0.05
done
redis-benchmark -h 127.0.0.1 -p "$PORT1" -n 3000 -c 20 -P 4 -t set,get,incr,lpush -q \
    > benchmark.txt 2>&1
grep -c 'requests per second' benchmark.txt | sed 's/^/benchmarks /'
redis-cli -p "$PORT1" get counter:__rand_int__
for i in $(seq 1 50); do echo "set key$i $i"; done | redis-cli -p "$PORT1" | sort | uniq -c
redis-cli -p "$PORT1" bgsave
for _ in $(seq 1 200); do
    redis-cli -p "$PORT1" info persistence | grep -q rdb_bgsave_in_progress:0 && break
    sleep 0.05
done
redis-cli -p "$PORT1" info persistence | grep rdb_last_bgsave_status | tr -d '\r'
redis-cli -p "$PORT1" shutdown nosave || true
wait "$server" && echo "server ended with 0"
rm -rf log dump.rdb appendonlydir benchmark.txt
