/* Runs a fuzz target once over each file of the folders and files given, so that every input ever
 * found is an ordinary regression test under any compiler. A folder that is missing or empty is an
 * error: a corpus that went away must not look like a passed test. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
__attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)(void));
const char *__ubsan_default_options(void);

static size_t inputs;
/* When an input kills us, which one is the thing to know. */
static char current[PATH_MAX];

static int complain(const char *path, const char *what)
{
    fprintf(stderr, "replay: %s: %s\n", path, what);
    return -1;
}

static int run_file(const char *path, size_t size)
{
    uint8_t *bytes =
        malloc(size ? size : 1); /* exactly the size, for the sanitizer to see the last byte */
    FILE *f = fopen(path, "rb");
    size_t n = f && bytes ? fread(bytes, 1, size, f) : 0;
    int ret = 0;

    if (!f || !bytes || n != size) {
        ret = complain(path, "cannot be read");
    } else {
        snprintf(current, sizeof current, "%s", path);
        LLVMFuzzerTestOneInput(bytes, size);
        inputs++;
    }
    if (f) {
        fclose(f);
    }
    free(bytes);
    return ret;
}

static int not_hidden(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

static int run_path(const char *path)
{
    struct stat st;
    struct dirent **names;
    size_t before = inputs;
    int ret = 0;

    if (stat(path, &st) != 0) {
        return complain(path, strerror(errno));
    }
    if (!S_ISDIR(st.st_mode)) {
        return run_file(path, (size_t)st.st_size);
    }
    int n = scandir(path, &names, not_hidden, alphasort); /* sorted: the same run everywhere */
    if (n < 0) {
        return complain(path, strerror(errno));
    }
    for (int i = 0; i < n; i++) {
        char below[PATH_MAX];
        int len = snprintf(below, sizeof below, "%s/%s", path, names[i]->d_name);
        if (len < 0 || (size_t)len >= sizeof below) {
            ret = complain(path, "name too long");
        } else if (run_path(below) != 0) {
            ret = -1;
        }
        free(names[i]);
    }
    free(names);
    return inputs == before && ret == 0 ? complain(path, "no inputs in this folder") : ret;
}

static void name_the_input(void)
{
    fprintf(stderr, "replay: died in %s\n", current);
}

const char *__ubsan_default_options(void) /* UBSan knows no death callback */
{
    return "abort_on_error=1:print_stacktrace=1";
}

static void on_abort(int sig)
{
    name_the_input(); /* not signal-safe, but this process is done for anyway */
    signal(sig, SIG_DFL);
    raise(sig);
}

int main(int argc, char **argv)
{
    int ret = 0;
    if (argc < 2) {
        fprintf(stderr, "usage: %s FOLDER-OR-FILE...\n", argv[0]);
        return 1;
    }
    signal(SIGABRT, on_abort);
    if (__sanitizer_set_death_callback) { /* sanitizers leave without abort() or atexit() */
        __sanitizer_set_death_callback(name_the_input);
    }
    for (int i = 1; i < argc; i++) {
        if (run_path(argv[i]) != 0) {
            ret = 1;
        }
    }
    printf("replay: %zu inputs\n", inputs);
    return ret;
}
