#include "runtime/comm/internal/streamed_sum.h"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace tessera {
namespace {

void plain_sum(float* sum, const float* a, const float* b, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) sum[i] = a[i] + b[i];
}

}  // namespace

#if defined(__x86_64__)

void stream_sum(float* sum, const float* a, const float* b, int64_t count) {
  constexpr int64_t kLane = 4, kLine = 16;  // floats of a vector, and of one write to memory
  int64_t begin = 0;
  while (begin < count && reinterpret_cast<uintptr_t>(sum + begin) % (kLine * sizeof(float)) != 0)
    ++begin;
  plain_sum(sum, a, b, 0, begin);
  int64_t i = begin;
  for (; i + kLine <= count; i += kLine)
    for (int64_t lane = i; lane < i + kLine; lane += kLane)
      _mm_stream_ps(sum + lane, _mm_add_ps(_mm_loadu_ps(a + lane), _mm_loadu_ps(b + lane)));
  plain_sum(sum, a, b, i, count);
  _mm_sfence();  // a release orders only plain stores
}

#else

void stream_sum(float* sum, const float* a, const float* b, int64_t count) {
  plain_sum(sum, a, b, 0, count);
}

#endif

}  // namespace tessera
