# The libraries that modules link. Each is used by one module, behind a narrow header.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(CLI11 REQUIRED)
find_package(ZLIB REQUIRED)
find_package(EXPAT REQUIRED)

# Debian's dnnl-config.cmake asks for the OpenCL development files, which the CPU engine does not need: look for the library itself.
find_library(TESSERA_DNNL_LIBRARY dnnl REQUIRED)
find_path(TESSERA_DNNL_INCLUDE oneapi/dnnl/dnnl.hpp REQUIRED)
add_library(tessera_dnnl INTERFACE)
target_link_libraries(tessera_dnnl INTERFACE ${TESSERA_DNNL_LIBRARY})
target_include_directories(tessera_dnnl SYSTEM INTERFACE $<BUILD_INTERFACE:${TESSERA_DNNL_INCLUDE}>)
# oneDNN runs on GNU's OpenMP, of which we call one function: only the library is needed, and no -fopenmp, so that clang needs no runtime of its own.
find_library(TESSERA_GOMP_LIBRARY NAMES gomp libgomp.so.1 HINTS ${CMAKE_CXX_IMPLICIT_LINK_DIRECTORIES} REQUIRED)
target_link_libraries(tessera_dnnl INTERFACE ${TESSERA_GOMP_LIBRARY})

find_package(hwy QUIET)
find_library(TESSERA_HWY_LIBRARY hwy REQUIRED)
add_library(tessera_hwy INTERFACE)
target_link_libraries(tessera_hwy INTERFACE ${TESSERA_HWY_LIBRARY})

find_library(TESSERA_HWLOC_LIBRARY hwloc REQUIRED)
find_path(TESSERA_HWLOC_INCLUDE hwloc.h REQUIRED)
add_library(tessera_hwloc INTERFACE)
target_link_libraries(tessera_hwloc INTERFACE ${TESSERA_HWLOC_LIBRARY})
target_include_directories(tessera_hwloc SYSTEM INTERFACE $<BUILD_INTERFACE:${TESSERA_HWLOC_INCLUDE}>)

# Planning makes and frees many small objects: the program, not the libraries, allocates with jemalloc. Sanitizers have allocators of their own.
add_library(tessera_allocator INTERFACE)
if(NOT TESSERA_SANITIZE)
  find_library(TESSERA_JEMALLOC jemalloc REQUIRED)
  target_link_libraries(tessera_allocator INTERFACE ${TESSERA_JEMALLOC})
  target_sources(tessera_allocator INTERFACE ${PROJECT_SOURCE_DIR}/cmake/allocator.cpp)
endif()

install(TARGETS tessera_dnnl tessera_hwy tessera_hwloc EXPORT tessera)

if(TESSERA_BUILD_TESTS)
  find_package(GTest REQUIRED)
endif()
if(TESSERA_BUILD_BENCH)
  find_package(benchmark REQUIRED)
endif()

# Optional: without it all ranks are threads of one process. Its C interface is used, not the bindings for C++.
set(MPI_CXX_SKIP_MPICXX ON)
find_package(MPI QUIET COMPONENTS CXX)
