#include "common/base/check.h"

#include <execinfo.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/fmt.h"

#define PANIC_FRAMES 48

void fl_panic(const char *file, int line, const char *what)
{
    char text[512];
    struct fl_fmt f = fl_fmt_of(text, sizeof text);

    fl_fmt_text(&f, file);
    fl_fmt_char(&f, ':');
    fl_fmt_int(&f, line);
    fl_fmt_text(&f, ": assertion failed: ");
    fl_fmt_text(&f, what);
    fl_fmt_char(&f, '\n');
    /* Straight to the descriptor: stdio may be what broke, and a lost message changes nothing. */
    ssize_t ignored = write(STDERR_FILENO, text, f.len);
    (void)ignored;

    void *frames[PANIC_FRAMES];
    backtrace_symbols_fd(frames, backtrace(frames, PANIC_FRAMES), STDERR_FILENO);
    abort();
}
