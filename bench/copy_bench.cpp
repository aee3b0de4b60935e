// Copies of boxes of short rows, such as the halos of small images, beside memcpy for each row:
// rows of a part of an image for 4,096 pairs of a sample and a channel. The least of several
// rounds.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <limits>

#include "runtime/comm/box_combine.h"

namespace tessera {
namespace {

constexpr int64_t kRows = 4096, kDistance = 72;  // from one row to the next, in elements

template <typename Run>
double min_time(const Run& run) {
  double smallest = std::numeric_limits<double>::infinity();
  for (int round = 0; round < 200; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    run();
    smallest = std::min(
        smallest, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return smallest;
}

void print_row(int64_t elements) {
  const Tensor source({DType::kF32, {kRows, kDistance}});
  Tensor target({DType::kF32, {kRows, kDistance}});
  const Box box{{{0, kRows}, {0, elements}}}, whole = whole_box({kRows, kDistance});
  BoxCombine copy(DType::kF32, ReduceOp::kSum, box, whole);
  copy.add_source(0, whole);
  copy.join_dims();
  const double boxes =
      min_time([&] { copy.run(target.data(), std::array<const std::byte*, 1>{source.data()}); });
  const size_t bytes = 4 * elements, stride = 4 * kDistance;
  const double rows = min_time([&] {
    for (int64_t row = 0; row < kRows; ++row)
      std::memcpy(target.data() + row * stride, source.data() + row * stride, bytes);
  });
  std::printf("rows of %2ld f32: %6.1f us, memcpy for each row %6.1f us: %.2f\n", elements,
              1e6 * boxes, 1e6 * rows, boxes / rows);
}

}  // namespace
}  // namespace tessera

int main() {
  for (const long elements : {1, 3, 6, 9, 16, 17, 32, 64}) tessera::print_row(elements);
}
