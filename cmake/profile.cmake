# A release build practises first. The data path is built to count which way its branches go and what is called how
# often (build/release/practice), runs tests/sim/scenarios/practice.c on the simulated network, for a second or two, and
# is then built for what was counted: gcc lays hot code together and puts the rest out of its way. 3 to 5 % of a small
# request (bench/RESULTS.md). Time is virtual there, so the counts are nearly the same each time.
option(FL_PROFILE "release builds of gcc practise first" ON)
option(FL_PRACTICE "this is the build that practises" OFF)

if(FL_PRACTICE)
  add_compile_options(-fprofile-generate=${CMAKE_BINARY_DIR}/profile -fprofile-prefix-path=${CMAKE_BINARY_DIR}
                      -fprofile-update=prefer-atomic)
  add_link_options(-fprofile-generate)
endif()

# What the build that practises must know of this one, to find the same libraries and make the same code.
set(FL_PRACTICE_SETTINGS CMAKE_BUILD_TYPE CMAKE_C_COMPILER CMAKE_C_FLAGS CMAKE_C_FLAGS_RELWITHDEBINFO
    CMAKE_EXE_LINKER_FLAGS CMAKE_MAKE_PROGRAM CMAKE_PREFIX_PATH CMAKE_TOOLCHAIN_FILE PKG_CONFIG_EXECUTABLE)

# fl_profile(target…): what is built for the counts.
function(fl_profile)
  if(NOT FL_PROFILE OR FL_PRACTICE OR FL_SANITIZE OR CMAKE_CROSSCOMPILING OR NOT CMAKE_BUILD_TYPE STREQUAL "RelWithDebInfo"
     OR NOT CMAKE_C_COMPILER_ID STREQUAL "GNU" OR CMAKE_C_COMPILER_VERSION VERSION_LESS 12)
    return()
  endif()
  set(tree ${CMAKE_BINARY_DIR}/practice)
  set(settings -DFL_PRACTICE=ON)
  foreach(name ${FL_PRACTICE_SETTINGS})
    if(DEFINED ${name})
      string(REPLACE ";" "\\;" value "${${name}}")
      list(APPEND settings "-D${name}=${value}")
    endif()
  endforeach()
  set(read ${CMAKE_SOURCE_DIR}/CMakeLists.txt)
  foreach(room cmake common/base common/model common/http1 common/verdict common/codec common/io common/tls sidecar/policy
          sidecar/proxy tests/sim tests/sim/scenarios)
    file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${room}/*.[ch] ${CMAKE_SOURCE_DIR}/${room}/*.cmake)
    list(APPEND read ${sources})
  endforeach()
  list(FILTER read EXCLUDE REGEX "/test_[^/]*$")
  add_custom_command(
    OUTPUT ${tree}/done
    COMMAND ${CMAKE_COMMAND} -S ${CMAKE_SOURCE_DIR} -B ${tree} -G ${CMAKE_GENERATOR} --log-level=WARNING ${settings}
    COMMAND ${CMAKE_COMMAND} --build ${tree} --target sim-practice
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${tree}/profile
    COMMAND ${tree}/tests/sim/scenarios/sim-practice
    # Fails when the counts are not where they will be looked for.
    COMMAND ${CMAKE_COMMAND} -E sha256sum "${tree}/profile/CMakeFiles#sidecar-proxy.dir#sidecar#proxy#exchange.c.gcda"
    COMMAND ${CMAKE_COMMAND} -E touch ${tree}/done
    DEPENDS ${read} COMMENT "Practising: which code is hot" VERBATIM)
  add_custom_target(practice DEPENDS ${tree}/done)
  foreach(target ${ARGN})
    # Not all of a room is practised (reactor and sockets are the simulator's), and a stale count is no error.
    target_compile_options(${target} PRIVATE -fprofile-use=${tree}/profile -fprofile-prefix-path=${CMAKE_BINARY_DIR}
                           -fprofile-partial-training -Wno-missing-profile -Wno-error=coverage-mismatch)
    get_target_property(sources ${target} SOURCES)
    set_property(SOURCE ${sources} APPEND PROPERTY OBJECT_DEPENDS ${tree}/done)
    add_dependencies(${target} practice)
  endforeach()
endfunction()
