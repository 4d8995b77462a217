/* calls_many.c: 20,000 calls without a pause.
 *
 * Hazard: they write records faster than anybody reads them. The ring comes round many times, and
 * a task that finds it full must wait: each call is in the trace once.
 */
#include "check.h"

int main(void) {
    begin("calls_many");
    pid_t parent = getppid();
    for (int i = 0; i < 20000; i++) EXPECT_EQ(getppid(), parent, "getppid");
    return ok();
}
