# tessera_room(NAME DEPENDS rooms... [LIBRARIES targets...])
#   One folder of src/ as one library: every *.cpp but the tests and the folder testing. DEPENDS names the rooms on lower floors that it may
#   include.
#   Its *_test.cpp become the program NAME_test and the test NAME.
function(tessera_room name)
  cmake_parse_arguments(ROOM "" "" "DEPENDS;LIBRARIES" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "(_test|/main|/testing/[^/]*)\\.cpp$")
  list(FILTER tests INCLUDE REGEX "_test\\.cpp$")

  if(sources)
    add_library(tessera_${name} STATIC ${sources})
    set(scope PUBLIC)
  else()
    add_library(tessera_${name} INTERFACE)  # headers only
    set(scope INTERFACE)
  endif()
  list(TRANSFORM ROOM_DEPENDS PREPEND tessera_ OUTPUT_VARIABLE rooms)
  target_include_directories(tessera_${name} ${scope} ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(tessera_${name} ${scope} ${ROOM_LIBRARIES} Threads::Threads ${rooms})
  if(tests AND TESSERA_BUILD_TESTS)
    tessera_test(${name} SOURCES ${tests} LIBRARIES tessera_${name})
  endif()
endfunction()

# tessera_test(NAME SOURCES files... LIBRARIES targets... [TIMEOUT seconds]): the program NAME_test and the test NAME.
function(tessera_test name)
  cmake_parse_arguments(TEST "" "TIMEOUT" "SOURCES;LIBRARIES" ${ARGN})
  if(NOT TEST_TIMEOUT)
    set(TEST_TIMEOUT 300)
  endif()
  add_executable(${name}_test ${TEST_SOURCES})
  target_link_libraries(${name}_test PRIVATE ${TEST_LIBRARIES})
  tessera_test_flags(${name}_test)
  target_precompile_headers(${name}_test REUSE_FROM tessera_test_header)
  add_test(NAME ${name} COMMAND ${name}_test WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${TEST_TIMEOUT})
endfunction()

# What all tests share: half of the time of a full build went into their headers and into optimising them.
function(tessera_test_flags target)
  target_link_libraries(${target} PRIVATE fmt::fmt spdlog::spdlog GTest::gtest GTest::gmock GTest::gtest_main)
  target_compile_definitions(${target} PRIVATE TESSERA_SOURCE_DIR="${CMAKE_SOURCE_DIR}" TESSERA_BINARY_DIR="${CMAKE_BINARY_DIR}")
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # At -O1 g++ 12 inlines a replaced operator delete but not its new, and takes them for strangers.
    target_compile_options(${target} PRIVATE -Wno-mismatched-new-delete)
  endif()
endfunction()

# One precompiled header serves them all; the compiler takes it only where the flags are the same.
if(TESSERA_BUILD_TESTS)
  add_library(tessera_test_header OBJECT ${CMAKE_CURRENT_LIST_DIR}/test_header.cpp)
  tessera_test_flags(tessera_test_header)
  target_precompile_headers(tessera_test_header PRIVATE <gtest/gtest.h> <gmock/gmock.h> <algorithm> <functional> <map> <memory> <optional> <string> <vector>)
endif()
