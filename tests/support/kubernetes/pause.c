/* What holds a Pod's namespaces while its containers come and go: waits to be told to end. */
#include <signal.h>
#include <unistd.h>

static void end(int signal) { _exit(signal == SIGTERM ? 0 : 1); }

int main(void) {
    signal(SIGTERM, end);
    signal(SIGINT, end);
    for (;;) pause();
}
