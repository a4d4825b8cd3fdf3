# Sanitizers (developer presets) or hardening flags (release), for every target.
add_compile_options(-ffile-prefix-map=${CMAKE_SOURCE_DIR}=. -fno-omit-frame-pointer)
# A room may offer more than a program takes: the sidecar must not load libcurl for the controller's sake.
add_link_options(-Wl,--as-needed)
add_compile_definitions(_GNU_SOURCE FL_VERSION="${FL_VERSION}")
if(FL_SANITIZE)
  add_compile_definitions(FL_SANITIZED) # gcc and clang do not tell by one name
  add_compile_options(-fsanitize=${FL_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${FL_SANITIZE})
  if(FL_FUZZ)
    # Coverage for everything below the targets; the targets themselves add libFuzzer's main.
    add_compile_options(-fsanitize=fuzzer-no-link)
    add_link_options(-fsanitize=fuzzer-no-link)
  endif()
elseif(CMAKE_BUILD_TYPE STREQUAL "Release" OR CMAKE_BUILD_TYPE STREQUAL "RelWithDebInfo")
  add_compile_options(-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3 -fstack-protector-strong -fstack-clash-protection
                      -ftrivial-auto-var-init=zero -fno-delete-null-pointer-checks)
  # Not for loadable modules (bench has one): they are -fPIC and -shared.
  add_compile_options($<$<NOT:$<STREQUAL:$<TARGET_PROPERTY:TYPE>,MODULE_LIBRARY>>:-fPIE>)
  add_link_options($<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-pie>)
  if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
    add_compile_options(-fcf-protection=full)
  elseif(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
    add_compile_options(-mbranch-protection=standard)
  endif()
  add_link_options(-Wl,-z,relro,-z,now,-z,noexecstack)
  if(CMAKE_C_COMPILER_ID STREQUAL "GNU" AND CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
    # gcc clears a struct of 100 bytes to 8 KiB by "rep stosq": 80 ns for 984 bytes, where memset takes 14 (Zen 3).
    add_compile_options(-mmemset-strategy=libcall:-1:noalign -mmemcpy-strategy=libcall:-1:noalign)
    add_link_options(-mmemset-strategy=libcall:-1:noalign -mmemcpy-strategy=libcall:-1:noalign)
  endif()
  if(CMAKE_C_COMPILER_ID STREQUAL "GNU" AND NOT FL_PRACTICE) # counting does not need it
    add_compile_options(-flto=auto)
    add_link_options(-flto=auto)
    set(CMAKE_AR gcc-ar)
    set(CMAKE_RANLIB gcc-ranlib)
  endif()
endif()
