/* check - programming errors stop the process, in production too; input errors never do. */
#ifndef FL_COMMON_BASE_CHECK_H
#define FL_COMMON_BASE_CHECK_H

#define FL_MUST_USE     __attribute__((warn_unused_result))
#define FL_PRINTF(f, a) __attribute__((format(printf, f, a)))
/* A large local that is always written before it is read: hardening need not clear it. */
#define FL_UNCLEARED   __attribute__((uninitialized))
#define FL_NORETURN    __attribute__((noreturn))
#define FL_LIKELY(x)   __builtin_expect(!!(x), 1)
#define FL_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define FL_COUNTOF(a)  (sizeof(a) / sizeof((a)[0]))

/* Prints "FILE:LINE: assertion failed: WHAT" and a backtrace to stderr, then aborts. */
FL_NORETURN void fl_panic(const char *file, int line, const char *what);

#define FL_MUST(cond)                                                                              \
    do {                                                                                           \
        if (FL_UNLIKELY(!(cond))) {                                                                \
            fl_panic(__FILE__, __LINE__, #cond);                                                   \
        }                                                                                          \
    } while (0)
#define FL_IMPOSSIBLE(what) fl_panic(__FILE__, __LINE__, what)

#endif
