# pipelines.sh: shell pipelines, job control, traps, here-documents, process substitution.
# needs: bash sort awk sed grep seq tr wc xargs mkfifo
set -eu
seq 1 3000 | awk '{ print $1 % 17, $1 }' | sort -n -k1,1 -k2,2 | sed -n '1~100p' | tr ' ' ':'
pids=
for i in 1 2 3 4 5 6 7 8; do
    (echo "job $i" > "job$i"; exit "$i") &
    pids="$pids $!"
done
sum=0
for pid in $pids; do wait "$pid" || sum=$((sum + $?)); done
echo "sum of exit codes $sum"
diff <(seq 1 100) <(seq 1 100 | grep -v 42) || echo "diff said $?"
mkfifo pipe
(seq 1 1000 > pipe) &
wc -l < pipe
wait
trap 'echo "got USR1"' USR1
kill -USR1 $$
cat <<END | tr a-z A-Z
here document of $((6 * 7))
END
seq 1 60 | xargs -P 4 -n 5 sh -c 'echo "$@" > "x$1"' sh
cat x* | tr ' ' '\n' | sort -n | wc -l
(kill -9 $BASHPID) || echo "subshell ended with $?"
yes | head -n 1000 | wc -c
exec 7> seven; echo seven >&7; exec 7>&-
echo "${PIPESTATUS[*]} $BASH_SUBSHELL"
false | true | exit 5 || echo "${PIPESTATUS[*]}"
exit 7
