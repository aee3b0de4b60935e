# tessera_module(NAME DEPENDS modules... [LIBRARIES targets...] [SLOW patterns of tests...])
#   One folder of src/ as one library: every *.cpp below it, except tests, main.cpp, folders named testing
#   and folders that are modules of their own (they have a CMakeLists.txt). NAME is the path below src/.
#   DEPENDS names the modules that it may include directly; tests/layers_test.py checks it.
#   Its *_test.cpp become the program NAME_test, and each of their test cases becomes a test of ctest.
#   Other projects link it as tessera::NAME, from an installation or by add_subdirectory.
#   The sources of its testing/ folder become the library tessera_NAME_testing, which only tests link.
function(tessera_module path)
  cmake_parse_arguments(MODULE "" "" "DEPENDS;LIBRARIES;SLOW" ${ARGN})
  string(REPLACE "/" "_" name ${path})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  file(GLOB_RECURSE nested RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/*/CMakeLists.txt)
  foreach(list ${nested})
    get_filename_component(folder ${list} DIRECTORY)
    list(FILTER sources EXCLUDE REGEX "^${CMAKE_CURRENT_SOURCE_DIR}/${folder}/")
  endforeach()
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
  set(modules ${MODULE_DEPENDS})
  list(TRANSFORM modules REPLACE "/" "_")
  list(TRANSFORM modules PREPEND tessera_)
  target_include_directories(tessera_${name} ${scope} $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src> $<INSTALL_INTERFACE:include/tessera>)
  target_compile_features(tessera_${name} ${scope} cxx_std_20)
  target_link_libraries(tessera_${name} ${scope} ${MODULE_LIBRARIES} Threads::Threads ${modules})
  tessera_use_header(tessera_${name})
  tessera_use_units(tessera_${name} 8)
  add_library(tessera::${name} ALIAS tessera_${name})
  set_target_properties(tessera_${name} PROPERTIES EXPORT_NAME ${name})
  install(TARGETS tessera_${name} EXPORT tessera ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  if(support AND (TESSERA_BUILD_TESTS OR TESSERA_BUILD_BENCH))
    add_library(tessera_${name}_testing STATIC EXCLUDE_FROM_ALL ${support})
    target_link_libraries(tessera_${name}_testing PUBLIC tessera_${name} $<TARGET_NAME_IF_EXISTS:GTest::gtest>)
    tessera_use_header(tessera_${name}_testing)
  endif()
  if(tests AND TESSERA_BUILD_TESTS)
    tessera_test(${name} SOURCES ${tests} LIBRARIES tessera_${name} SLOW ${MODULE_SLOW})
    if(support)
      target_link_libraries(${name}_test PRIVATE tessera_${name}_testing)
    endif()
  endif()
endfunction()

# tessera_test(NAME SOURCES files... LIBRARIES targets... [SLOW patterns...]): the program NAME_test. Each of its test
#   cases becomes the test NAME.Suite.Case of ctest, with a time limit of its own and the label `case`; those that match
#   one of the patterns SLOW (as of --gtest_filter) have a longer limit and the label `slow`. The test quick.NAME, with
#   the label `quick-program`, runs all the others in one process: ./dev test --quick runs those.
set(TESSERA_TEST_TIMEOUT 60)
set(TESSERA_SLOW_TEST_TIMEOUT 300)
if(TESSERA_SANITIZE)
  set(TESSERA_TEST_TIMEOUT 300)
  set(TESSERA_SLOW_TEST_TIMEOUT 1500)
endif()
include(GoogleTest)
function(tessera_test name)
  cmake_parse_arguments(TEST "" "" "SOURCES;LIBRARIES;SLOW" ${ARGN})
  add_executable(${name}_test ${TEST_SOURCES})
  target_link_libraries(${name}_test PRIVATE ${TEST_LIBRARIES})
  tessera_test_flags(${name}_test)
  tessera_use_units(${name}_test 6)
  target_precompile_headers(${name}_test REUSE_FROM tessera_test_header)
  string(REPLACE ";" ":" slow "${TEST_SLOW}")
  set(options TEST_PREFIX ${name}. WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} DISCOVERY_TIMEOUT 60)
  set(cases TIMEOUT ${TESSERA_TEST_TIMEOUT} LABELS case)
  if(slow)
    gtest_discover_tests(${name}_test ${options} TEST_FILTER "-${slow}" TEST_LIST ${name}_cases PROPERTIES ${cases})
    gtest_discover_tests(${name}_test ${options} TEST_FILTER "${slow}" TEST_LIST ${name}_slow_cases
                         PROPERTIES TIMEOUT ${TESSERA_SLOW_TEST_TIMEOUT} LABELS slow)
  else()
    gtest_discover_tests(${name}_test ${options} PROPERTIES ${cases})
  endif()
  add_test(NAME quick.${name} COMMAND ${name}_test --gtest_brief=1 "--gtest_filter=-${slow}"
           WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(quick.${name} PROPERTIES TIMEOUT 300 LABELS quick-program)
endfunction()

# What all tests share: half of the time of a full build went into their headers and into optimising them.
function(tessera_test_flags target)
  target_link_libraries(${target} PRIVATE fmt::fmt spdlog::spdlog GTest::gtest GTest::gmock GTest::gtest_main)
  target_compile_definitions(${target} PRIVATE TESSERA_SOURCE_DIR="${PROJECT_SOURCE_DIR}" TESSERA_BINARY_DIR="${PROJECT_BINARY_DIR}")
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1> -Wno-conversion)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # At -O1 g++ 12 inlines a replaced operator delete but not its new, and takes them for a mismatched pair.
    target_compile_options(${target} PRIVATE -Wno-mismatched-new-delete)
  endif()
endfunction()

# tessera_use_units(TARGET SIZE): SIZE sources of a library or a test are compiled at once. Seven tenths of the time of a
#   source went into headers, which they then share. So the names in the anonymous namespaces of a module differ. A build
#   with clang compiles each source alone: it finds a missing #include.
option(TESSERA_UNITS "Compile several sources of a module at once" ON)
function(tessera_use_units target size)
  if(TESSERA_UNITS AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${size})
  endif()
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
endif()
