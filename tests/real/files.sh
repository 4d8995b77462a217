# files.sh: tar, find, cp, rsync-like loops, dd, compression: many files and their metadata.
# needs: tar find cp dd gzip sha256sum sort touch
set -eu
mkdir -p tree/a/b/c tree/d
for i in $(seq 1 200); do echo "content $i" > "tree/a/f$i"; done
for i in 1 2 3; do dd if=/dev/zero of="tree/d/z$i" bs=4096 count="$i" 2> /dev/null; done
ln -s ../a/f1 tree/d/link && ln tree/a/f2 tree/d/hard && mkfifo tree/d/pipe
find tree -exec touch -h -d '2020-01-01 00:00:00Z' {} +
tar --sort=name --owner=0 --group=0 --numeric-owner -cf tree.tar tree
sha256sum tree.tar
gzip -n -9 < tree.tar > tree.tar.gz
mkdir out && tar -xzf tree.tar.gz -C out
find out -printf '%P %y %m %s %l\n' | sort | sha256sum
cp -a tree copy && find copy -type f | wc -l
find tree -name 'f1*' -size -2 -print0 | sort -z | xargs -0 cat | sha256sum
find tree -name 'f*' -delete && find tree | sort
rm tree/d/pipe out/tree/d/pipe copy/d/pipe
