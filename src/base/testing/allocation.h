// For tests that count allocations: replaces operator new of a whole test program. Include it in
// one source of the program.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <new>

#include "base/testing/thread_peak.h"

namespace tessera::allocation_testing {

/// Called just before every allocation. The source that includes this header defines it.
///
///   caller   an address in the code that allocates
///   threads  the thread that allocates
///   memory   must not allocate
void on_allocation(const void* caller);

/// Returns nullptr when memory is short.
inline void* allocate(std::size_t size, std::size_t alignment, const void* caller) {
  on_allocation(caller);
  // The size of aligned memory is a multiple of its alignment.
  void* memory = std::aligned_alloc(
      alignment, (std::max<std::size_t>(size, 1) + alignment - 1) / alignment * alignment);
  if (memory) thread_peak::allocated(memory);
  return memory;
}

inline void* allocate_or_throw(std::size_t size, std::size_t alignment, const void* caller) {
  if (void* memory = allocate(size, alignment, caller)) return memory;
  throw std::bad_alloc();
}

inline void release(void* memory) {
  thread_peak::freed(memory);
  std::free(memory);
}

}  // namespace tessera::allocation_testing

// Every form that libstdc++ uses is replaced: a sanitizer has each of its own, and memory of one
// must not be freed by another. They are not inlined, because g++ would compare the new of one call
// with the delete of another and warn.
[[gnu::noinline]] void* operator new(std::size_t size) {
  return tessera::allocation_testing::allocate_or_throw(size, alignof(std::max_align_t),
                                                        __builtin_return_address(0));
}
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment) {
  return tessera::allocation_testing::allocate_or_throw(size, static_cast<std::size_t>(alignment),
                                                        __builtin_return_address(0));
}
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return tessera::allocation_testing::allocate(size, alignof(std::max_align_t),
                                               __builtin_return_address(0));
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  tessera::allocation_testing::release(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  tessera::allocation_testing::release(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  tessera::allocation_testing::release(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  tessera::allocation_testing::release(memory);
}
[[gnu::noinline]] void operator delete(void* memory, const std::nothrow_t&) noexcept {
  tessera::allocation_testing::release(memory);
}
