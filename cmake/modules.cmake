# tessera_module(LAYER/MODULE DEPENDS modules... [LIBRARIES targets...] [OPTIMIZATION flag]
#                [TEST_LIBRARIES targets...] [CONFORMANCE patterns...] [SOAK patterns...] [ALONE patterns...])
#   One folder of src/ as one library: every *.cpp below it, except tests, main.cpp, folders named testing
#   and folders that are modules of their own. LAYER/MODULE is the path below src/.
#   Headers in its folder internal/ are for the module alone.
#   DEPENDS names the modules that it may include directly; tests/layers_test.py checks it.
#   OPTIMIZATION is the flag of a release build, by default -O3.
#   Other projects link it as tessera::LAYER_MODULE, from an installation or by add_subdirectory.
#   The sources of its testing/ folder become the library tessera_LAYER_MODULE_testing, which only tests link.
#   Its *_test.cpp become part of the test program of its layer, which links TEST_LIBRARIES besides.
#   Cases that match one of the patterns CONFORMANCE or SOAK (as of --gtest_filter) run in that tier;
#   those that match ALONE run in a process of their own.
function(tessera_module path)
  cmake_parse_arguments(MODULE "" "OPTIMIZATION" "DEPENDS;LIBRARIES;TEST_LIBRARIES;CONFORMANCE;SOAK;ALONE" ${ARGN})
  string(REPLACE "/" "_" name ${path})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${path}/*.cpp)
  foreach(nested ${modules})
    if(nested MATCHES "^${path}/")
      list(FILTER sources EXCLUDE REGEX "^${PROJECT_SOURCE_DIR}/src/${nested}/")
    endif()
  endforeach()
  # In the order of their names without internal/, so that the same sources are compiled at once wherever they are.
  list(TRANSFORM sources REPLACE "^(.*)/internal/(.*)$" "\\1/\\2>\\1/internal/\\2")
  list(SORT sources)
  list(TRANSFORM sources REPLACE "^.*>" "")
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cpp$")
  set(support ${sources})
  list(FILTER support INCLUDE REGEX "/testing/[^/]*\\.cpp$")
  list(FILTER support EXCLUDE REGEX "_test\\.cpp$")
  list(FILTER sources EXCLUDE REGEX "(_test|/main|/testing/[^/]*)\\.cpp$")

  if(sources)
    add_library(tessera_${name} STATIC ${sources})
    set(scope PUBLIC)
  else()
    add_library(tessera_${name} INTERFACE)  # headers only
    set(scope INTERFACE)
  endif()
  set(depends ${MODULE_DEPENDS})
  list(TRANSFORM depends REPLACE "/" "_")
  list(TRANSFORM depends PREPEND tessera_)
  target_include_directories(tessera_${name} ${scope} $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src> $<INSTALL_INTERFACE:include/tessera>)
  target_compile_features(tessera_${name} ${scope} cxx_std_20)
  target_link_libraries(tessera_${name} ${scope} ${MODULE_LIBRARIES} Threads::Threads ${depends})
  if(MODULE_OPTIMIZATION)
    target_compile_options(tessera_${name} PRIVATE $<$<CONFIG:Release>:${MODULE_OPTIMIZATION}>)
  endif()
  tessera_use_header(tessera_${name})
  tessera_use_units(tessera_${name} ${name} ${sources})
  add_library(tessera::${name} ALIAS tessera_${name})
  set_target_properties(tessera_${name} PROPERTIES EXPORT_NAME ${name})
  install(TARGETS tessera_${name} EXPORT tessera ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  set(test_libraries tessera_${name} ${MODULE_TEST_LIBRARIES})
  if(support AND (TESSERA_BUILD_TESTS OR TESSERA_BUILD_BENCH))
    add_library(tessera_${name}_testing STATIC EXCLUDE_FROM_ALL ${support})
    target_link_libraries(tessera_${name}_testing PUBLIC tessera_${name} $<TARGET_NAME_IF_EXISTS:GTest::gtest>)
    tessera_use_header(tessera_${name}_testing)
    list(APPEND test_libraries tessera_${name}_testing)
  endif()
  tessera_layer_of(${path} layer)
  foreach(source ${tests})
    set_property(GLOBAL APPEND PROPERTY tessera_tests_of_${layer} ${source})
    set_property(GLOBAL PROPERTY tessera_module_of_${source} ${name})
  endforeach()
  if(tests)
    set_property(GLOBAL APPEND PROPERTY tessera_test_libraries_of_${layer} ${test_libraries})
    foreach(kind CONFORMANCE SOAK ALONE)
      set_property(GLOBAL APPEND PROPERTY tessera_${kind}_of_${layer} ${MODULE_${kind}})
    endforeach()
  endif()
endfunction()

# tessera_layer_of(MODULE VARIABLE): the layer of MODULE, which is the first folder of its path.
function(tessera_layer_of module variable)
  string(REGEX REPLACE "/.*" "" layer ${module})
  set(${variable} ${layer} PARENT_SCOPE)
endfunction()

# tessera_layer_test(LAYER SHARDS): the program LAYER_test of the *_test.cpp of all modules of LAYER, in the tier `unit`.
function(tessera_layer_test layer shards)
  get_property(sources GLOBAL PROPERTY tessera_tests_of_${layer})
  get_property(libraries GLOBAL PROPERTY tessera_test_libraries_of_${layer})
  foreach(kind CONFORMANCE SOAK ALONE)
    get_property(${kind} GLOBAL PROPERTY tessera_${kind}_of_${layer})
  endforeach()
  list(REMOVE_DUPLICATES libraries)
  tessera_test(${layer} TIER unit SHARDS ${shards} SOURCES ${sources} LIBRARIES ${libraries}
               CONFORMANCE ${CONFORMANCE} SOAK ${SOAK} ALONE ${ALONE})
endfunction()

# tessera_test(NAME TIER tier SHARDS n SOURCES files... LIBRARIES targets... [CONFORMANCE patterns...]
#              [SOAK patterns...] [ALONE patterns...])
#   The program NAME_test. ctest runs it n times, as TIER.NAME.1 to TIER.NAME.n with the label TIER, each time another
#   share of its cases; a case that crashes or hangs is named and the others still run (tests/support/supervised_main.cpp).
#   GoogleTest writes the result of each case to results/TIER.NAME.I.xml of the build folder. The cases that match
#   CONFORMANCE or SOAK are conformance.NAME.1 and soak.NAME.1 instead; those that match ALONE are one more share.
set(TESSERA_CASE_SECONDS 300)
set(TESSERA_SHARD_SECONDS 1500)
if(TESSERA_SANITIZE)
  set(TESSERA_CASE_SECONDS 3000)
  set(TESSERA_SHARD_SECONDS 20000)
endif()
function(tessera_test name)
  cmake_parse_arguments(TEST "" "TIER;SHARDS" "SOURCES;LIBRARIES;CONFORMANCE;SOAK;ALONE" ${ARGN})
  add_executable(${name}_test ${TEST_SOURCES})
  target_link_libraries(${name}_test PRIVATE ${TEST_LIBRARIES} tessera_test_main)
  tessera_test_flags(${name}_test)
  tessera_use_units(${name}_test ${name}_test ${TEST_SOURCES})
  target_precompile_headers(${name}_test REUSE_FROM tessera_test_header)
  foreach(kind CONFORMANCE SOAK ALONE)
    string(REPLACE ";" ":" ${kind} "${TEST_${kind}}")
  endforeach()
  math(EXPR last "${TEST_SHARDS} - 1")
  foreach(shard RANGE ${last})
    math(EXPR number "${shard} + 1")
    tessera_add_shard(${TEST_TIER} ${name} ${number} "-${CONFORMANCE}:${SOAK}:${ALONE}"
                      GTEST_TOTAL_SHARDS=${TEST_SHARDS} GTEST_SHARD_INDEX=${shard})
  endforeach()
  if(ALONE)
    math(EXPR number "${TEST_SHARDS} + 1")
    tessera_add_shard(${TEST_TIER} ${name} ${number} "${ALONE}")
  endif()
  if(CONFORMANCE)
    tessera_add_shard(conformance ${name} 1 "${CONFORMANCE}")
  endif()
  if(SOAK)
    tessera_add_shard(soak ${name} 1 "${SOAK}")
  endif()
endfunction()

function(tessera_add_shard tier name number filter)
  set(test ${tier}.${name}.${number})
  add_test(NAME ${test} COMMAND ${name}_test --gtest_brief=1 --gtest_filter=${filter}
           --gtest_output=xml:${PROJECT_BINARY_DIR}/results/${test}.xml WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${test} PROPERTIES TIMEOUT ${TESSERA_SHARD_SECONDS} LABELS ${tier}
                       ENVIRONMENT "TESSERA_CASE_SECONDS=${TESSERA_CASE_SECONDS};${ARGN}")
endfunction()

# What all tests share: half of the time of a full build went into their headers and into optimising them.
function(tessera_test_flags target)
  target_link_libraries(${target} PRIVATE fmt::fmt spdlog::spdlog GTest::gtest GTest::gmock)
  target_compile_definitions(${target} PRIVATE TESSERA_SOURCE_DIR="${PROJECT_SOURCE_DIR}" TESSERA_BINARY_DIR="${PROJECT_BINARY_DIR}")
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1> -Wno-conversion)
  # A precompiled header serves only sources that are compiled for the same kind of program as it.
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # At -O1 g++ 12 inlines a replaced operator delete but not its new, and takes them for a mismatched pair.
    target_compile_options(${target} PRIVATE -Wno-mismatched-new-delete)
  endif()
endfunction()

# tessera_use_units(TARGET NAME sources...): the sources of a library or a test program are compiled several at once, in
#   groups of about TESSERA_UNIT_BYTES, since headers take most of the time of a source. Sources of a test program are
#   grouped with those of their own module only. So the names in the anonymous namespaces of a module differ. A build
#   with clang compiles each source alone: it finds a missing #include.
option(TESSERA_UNITS "Compile several sources of a module at once" ON)
set(TESSERA_UNIT_BYTES 70000)
function(tessera_use_units target name)
  if(NOT TESSERA_UNITS OR NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU" OR NOT ARGN)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  set(number 0)
  set(bytes 0)
  set(before "")
  foreach(source ${ARGN})
    get_filename_component(source ${source} ABSOLUTE)
    get_property(module GLOBAL PROPERTY tessera_module_of_${source})
    file(SIZE ${source} size)
    math(EXPR bytes "${bytes} + ${size}")
    if(bytes GREATER TESSERA_UNIT_BYTES OR NOT "${module}" STREQUAL "${before}")
      math(EXPR number "${number} + 1")
      set(bytes ${size})
    endif()
    set(before "${module}")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${name}_${number})
  endforeach()
endfunction()

# The headers of the standard library are compiled once for all modules, and once for all tests, whose flags differ: they
# were a quarter of the time of a module's source. A build with clang has none for the modules: it finds a missing #include.
set(TESSERA_STANDARD_HEADERS <algorithm> <array> <atomic> <chrono> <cmath> <condition_variable> <cstdint> <deque> <exception>
    <filesystem> <functional> <limits> <map> <memory> <mutex> <numeric> <optional> <queue> <random> <set> <span> <sstream>
    <string> <string_view> <thread> <tuple> <unordered_map> <unordered_set> <utility> <variant> <vector>)
function(tessera_use_header target)
  get_target_property(type ${target} TYPE)
  if(TARGET tessera_header AND NOT type STREQUAL "INTERFACE_LIBRARY")
    target_precompile_headers(${target} REUSE_FROM tessera_header)
  endif()
endfunction()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_library(tessera_header OBJECT ${CMAKE_CURRENT_LIST_DIR}/header.cpp)
  target_compile_features(tessera_header PRIVATE cxx_std_20)
  target_link_libraries(tessera_header PRIVATE Threads::Threads)
  target_precompile_headers(tessera_header PRIVATE ${TESSERA_STANDARD_HEADERS})
endif()
if(TESSERA_BUILD_TESTS)
  add_library(tessera_test_header OBJECT ${CMAKE_CURRENT_LIST_DIR}/header.cpp)
  tessera_test_flags(tessera_test_header)
  target_precompile_headers(tessera_test_header PRIVATE <gtest/gtest.h> <gmock/gmock.h> ${TESSERA_STANDARD_HEADERS})
  add_library(tessera_test_main STATIC ${PROJECT_SOURCE_DIR}/tests/support/supervised_main.cpp)
  tessera_test_flags(tessera_test_main)
endif()
