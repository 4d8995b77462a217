/* fork_brief.c: 2,500 children that end at once, one after another.
 *
 * Hazard: a child may have come and gone before the supervisor hears of it. What it held (its
 * ring, of which a trace has 2,048) must be free again all the same, or a later task waits for ever.
 */
#include "check.h"

#define CHILDREN 2500

int main(void) {
    begin("fork_brief");
    for (int i = 0; i < CHILDREN; i++) {
        pid_t child = CALL(fork());
        if (child == 0) _exit(i % 100);
        expect_exit(child, i % 100, "a child that ends at once");
    }
    return ok();
}
