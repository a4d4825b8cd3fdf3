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

# fl_profile(target…): what is built for the counts.
function(fl_profile)
  if(NOT FL_PROFILE OR FL_PRACTICE OR FL_SANITIZE OR CMAKE_CROSSCOMPILING OR NOT CMAKE_BUILD_TYPE STREQUAL "RelWithDebInfo"
     OR NOT CMAKE_C_COMPILER_ID STREQUAL "GNU" OR CMAKE_C_COMPILER_VERSION VERSION_LESS 12)
    return()
  endif()
  set(tree ${CMAKE_BINARY_DIR}/practice)
  file(GLOB_RECURSE read CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/common/*.[ch] ${CMAKE_SOURCE_DIR}/sidecar/policy/*.[ch]
       ${CMAKE_SOURCE_DIR}/sidecar/proxy/*.[ch] ${CMAKE_SOURCE_DIR}/tests/sim/*.[ch])
  add_custom_command(
    OUTPUT ${tree}/done
    COMMAND ${CMAKE_COMMAND} -S ${CMAKE_SOURCE_DIR} -B ${tree} -G ${CMAKE_GENERATOR} --log-level=WARNING
            -DCMAKE_BUILD_TYPE=${CMAKE_BUILD_TYPE} -DCMAKE_C_COMPILER=${CMAKE_C_COMPILER}
            -DCMAKE_C_FLAGS=${CMAKE_C_FLAGS} -DFL_PRACTICE=ON
    COMMAND ${CMAKE_COMMAND} --build ${tree} --target sim-practice
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${tree}/profile
    COMMAND ${tree}/tests/sim/scenarios/sim-practice
    COMMAND ${CMAKE_COMMAND} -E touch ${tree}/done
    DEPENDS ${read} ${CMAKE_SOURCE_DIR}/cmake/profile.cmake ${CMAKE_SOURCE_DIR}/cmake/hardening.cmake
    COMMENT "Practising: which code is hot" VERBATIM)
  add_custom_target(practice DEPENDS ${tree}/done)
  foreach(target ${ARGN})
    target_compile_options(${target} PRIVATE -fprofile-use=${tree}/profile -fprofile-prefix-path=${CMAKE_BINARY_DIR}
                           -fprofile-partial-training -Wno-missing-profile -Wno-error=coverage-mismatch)
    get_target_property(sources ${target} SOURCES)
    set_property(SOURCE ${sources} APPEND PROPERTY OBJECT_DEPENDS ${tree}/done)
    add_dependencies(${target} practice)
  endforeach()
endfunction()
