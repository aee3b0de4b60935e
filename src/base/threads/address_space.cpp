#include "base/threads/address_space.h"

#include <sys/mman.h>

#include <new>

namespace tessera {
namespace {

constexpr Bytes kMemoryForThread{24 << 20};  // the usual stack has 8 MiB

}  // namespace

void require_address_space(Bytes bytes) {
  const auto size = static_cast<size_t>(bytes.value());
  void* const place =
      mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) throw std::bad_alloc();
  munmap(place, size);
}

void require_memory_for_thread() {
  require_address_space(kMemoryForThread);
}

}  // namespace tessera
