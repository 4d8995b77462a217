/* dlopen.c: code that is loaded, called, unloaded and loaded again.
 *
 * Hazard: sites appear after the start, their trampolines must be near, and after dlclose the
 * same addresses hold other code: what was known about them is stale.
 */
#include <dlfcn.h>
#include "check.h"

int main(int argc, char **argv) {
    begin("dlopen");
    EXPECT(argc == 2, "usage: dlopen PLUGIN");
    for (int round = 0; round < 8; round++) {
        void *plugin = dlopen(argv[1], round & 1 ? RTLD_LAZY : RTLD_NOW);
        if (!plugin) fail("dlopen: %s", dlerror());
        int *constructed = dlsym(plugin, "plugin_constructed");
        int (*work)(void) = (int (*)(void))dlsym(plugin, "plugin_work");
        EXPECT(constructed && work, "symbols");
        EXPECT_EQ(*constructed, 1, "the constructor's call");
        for (int i = 0; i < 3; i++) EXPECT_EQ(work(), 1, "calls from the plugin");
        EXPECT_EQ(dlclose(plugin), 0, "dlclose");
        /* Take some of the freed room, so that the next round may lie elsewhere. */
        if (round & 2) mmap(NULL, 4096 * 3, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    return ok();
}
