# nginx.sh: nginx with two workers under wrk, reloaded meanwhile, then asked to quit.
# needs: nginx wrk curl
# ports: 1
set -eu
mkdir -p site logs temporary && echo 'hello from nginx' > site/index.html
head -c 200000 /dev/zero | tr '\0' x > site/large
chmod 755 . site && chmod 644 site/*
user=$([ "$(id -u)" = 0 ] && echo "user root;" || true)
cat > nginx.conf <<END
$user
daemon off; worker_processes 2; pid $PWD/nginx.pid; error_log $PWD/logs/error.log;
events { worker_connections 64; }
http {
    access_log $PWD/logs/access.log; sendfile on; aio threads;
    client_body_temp_path $PWD/temporary/a; proxy_temp_path $PWD/temporary/b;
    fastcgi_temp_path $PWD/temporary/c; uwsgi_temp_path $PWD/temporary/d;
    scgi_temp_path $PWD/temporary/e;
    server { listen 127.0.0.1:$PORT1; root $PWD/site; }
}
END
nginx -p "$PWD" -c "$PWD/nginx.conf" 2> /dev/null &
server=$!
for _ in $(seq 1 200); do
    curl -s -o /dev/null "http://127.0.0.1:$PORT1/" && break
    sleep 0.05
done
curl -s "http://127.0.0.1:$PORT1/"
curl -s "http://127.0.0.1:$PORT1/large" | wc -c
wrk -t1 -c8 -d1s "http://127.0.0.1:$PORT1/" > wrk.txt
grep -c 'Non-2xx\|Socket errors' wrk.txt || true
nginx -p "$PWD" -c "$PWD/nginx.conf" -s reload 2> /dev/null
sleep 0.3
for _ in $(seq 1 20); do curl -s "http://127.0.0.1:$PORT1/"; done | sort | uniq -c
nginx -p "$PWD" -c "$PWD/nginx.conf" -s quit 2> /dev/null
wait "$server" && echo "nginx ended with 0"
grep -c 'signal 11\|alert\|emerg' logs/error.log || true
rm -rf logs temporary wrk.txt nginx.conf nginx.pid
