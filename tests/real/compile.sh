# compile.sh: gcc and make: preprocess, compile, assemble, link, run, in parallel.
# needs: gcc make ar
set -eu
for i in 1 2 3 4 5 6; do
    printf '#include <stdio.h>\nint part%d(int x) { return x * %d; }\n' "$i" "$i" > "part$i.c"
done
cat > main.c <<'END'
#include <stdio.h>
int part1(int), part2(int), part3(int), part4(int), part5(int), part6(int);
int main(void) {
    printf("%d\n", part1(1) + part2(1) + part3(1) + part4(1) + part5(1) + part6(1));
    return 21;
}
END
cat > Makefile <<'END'
objects = part1.o part2.o part3.o part4.o part5.o part6.o
program: main.o libparts.a
	$(CC) -o $@ main.o libparts.a
libparts.a: $(objects)
	ar rcD $@ $(objects)
%.o: %.c
	$(CC) -O2 -g0 -c -o $@ $<
END
make -s -j2 CC=gcc
make -s CC=gcc
./program || echo "program ended with $?"
printf 'int main(void) { return nothing; }\n' > wrong.c
gcc -fdiagnostics-color=never -c wrong.c 2>&1 | grep -c undeclared || true
gcc -static -o static main.c part?.c && ./static || echo "static ended with $?"
