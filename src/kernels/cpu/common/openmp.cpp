#include "kernels/cpu/common/openmp.h"

#include <array>
#include <memory>

// From omp.h, which clang's packages do not contain.
extern "C" void omp_set_num_threads(int);
extern "C" int omp_get_max_threads();

namespace tessera {
namespace {

/// libgomp keeps the settings of each thread in a block of a few hundred bytes (216 in version 12),
/// which it allocates at the first call of a thread.
constexpr size_t kMinBlock = 128, kMaxBlock = 512, kStep = 16;

/// Allocates and frees blocks of all these sizes, so that the next one of the thread is there.
void require_memory_of_thread() {
  std::array<std::unique_ptr<std::byte[]>, (kMaxBlock - kMinBlock) / kStep + 1> blocks;
  for (size_t i = 0; i < blocks.size(); ++i)
    blocks[i] = std::make_unique<std::byte[]>(kMinBlock + i * kStep);
}

}  // namespace

void set_openmp_threads(int count) {
  thread_local bool has_settings = false;
  if (!has_settings) require_memory_of_thread();
  omp_set_num_threads(count);
  has_settings = true;
}

int openmp_threads() {
  return omp_get_max_threads();
}

}  // namespace tessera
