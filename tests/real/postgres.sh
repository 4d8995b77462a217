# postgres.sh: PostgreSQL: initdb, a server, pgbench with two clients, a fast shutdown.
# needs: initdb postgres pg_ctl pgbench psql
# ports: 1
# user: postgres
# seconds: 240
set -eu
export PGHOST="$PWD" PGPORT="$PORT1" PGDATABASE=postgres
initdb -D data -A trust -E UTF8 --locale=C -N > initdb.log
echo "listen_addresses = ''
unix_socket_directories = '$PWD'
shared_buffers = 16MB
fsync = off" >> data/postgresql.conf
pg_ctl -D data -l server.log -w -t 60 start > /dev/null
pgbench -i -q -s 1 > /dev/null 2>&1
pgbench -n -c 2 -j 2 -t 100 > pgbench.log 2>&1
grep 'number of transactions actually processed\|failed' pgbench.log
psql -At -c 'select count(*) from pgbench_history' -c 'select count(*) from pgbench_accounts'
psql -At -c 'set max_parallel_workers_per_gather=2; set parallel_setup_cost=0;
             set min_parallel_table_scan_size=0; select sum(aid) from pgbench_accounts'
psql -At -c 'select 1/0' 2>&1 || echo "psql ended with $?"
pg_ctl -D data -m fast -w -t 60 stop > /dev/null && echo "stopped"
grep -c 'terminated by signal\|PANIC' server.log || true
rm -rf data initdb.log pgbench.log server.log
