#include "runtime/streamed_sum.h"

#include <hwy/cache_control.h>
#include <hwy/highway.h>

namespace tessera {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

/// Elements from `data` on until the next whole vector.
int64_t misaligned(const float* data, int64_t lanes) {
  const auto at = static_cast<int64_t>(reinterpret_cast<uintptr_t>(data) / sizeof(float));
  return (lanes - at % lanes) % lanes;
}

}  // namespace

void stream_sum(float* sum, const float* a, const float* b, int64_t count) {
  const hn::ScalableTag<float> vector;
  const auto lanes = static_cast<int64_t>(hn::Lanes(vector));
  int64_t i = 0;
  for (const int64_t head = misaligned(sum, lanes); i < head && i < count; ++i) sum[i] = a[i] + b[i];
  for (; i + lanes <= count; i += lanes) hn::Stream(hn::Add(hn::LoadU(vector, a + i), hn::LoadU(vector, b + i)), vector, sum + i);
  for (; i < count; ++i) sum[i] = a[i] + b[i];
  hwy::FlushStream();
}

}  // namespace tessera
