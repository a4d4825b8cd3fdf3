# The warning set of docs/STYLE.md. Both compilers are clean with it; FL_WERROR makes it binding.
set(FL_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wstrict-prototypes
    -Wmissing-prototypes -Wold-style-definition -Wwrite-strings -Wcast-qual -Wpointer-arith -Wformat=2 -Wundef
    -Wvla -Walloca -Wswitch-enum -Wnull-dereference -Wdouble-promotion -Wimplicit-fallthrough -Wredundant-decls
    -Wdate-time)
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
  list(APPEND FL_WARNINGS -Wduplicated-cond -Wduplicated-branches -Wlogical-op -Wjump-misses-init
       -Wcast-align=strict -Wformat-truncation=2 -Wformat-overflow=2 -Wstack-usage=16384 -Wtrampolines -Walloc-zero)
else()
  list(APPEND FL_WARNINGS -Wno-gnu-zero-variadic-macro-arguments)
endif()
if(FL_WERROR)
  list(APPEND FL_WARNINGS -Werror)
endif()
function(fl_compile_options target)
  target_compile_options(${target} PRIVATE ${FL_WARNINGS})
endfunction()
