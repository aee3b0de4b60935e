#include "kernels/cpu/common/narrow_loops.h"

#include <algorithm>

#include "kernels/cpu/common/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/common/narrow_loops.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

// Compiled once for each target.
HWY_BEFORE_NAMESPACE();
namespace tessera {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::ScalableTag<float>;
using Words = hn::RebindToUnsigned<Floats>;
using SignedWords = hn::RebindToSigned<Floats>;
using Halves = hn::Rebind<uint16_t, Floats>;
using HalfFloats = hn::Rebind<hwy::float16_t, Floats>;
using HalfVector = hn::Vec<Halves>;
using Vector = hn::Vec<Floats>;

struct Brain {
  static HWY_INLINE Vector widened(HalfVector x) {
    return hn::BitCast(Floats(), hn::ShiftLeft<16>(hn::PromoteTo(Words(), x)));
  }

  static HWY_INLINE HalfVector rounded(Vector x) {
    const auto bits = hn::BitCast(Words(), x);
    // Just below half of the last kept digit, and one more where that digit is odd.
    const auto is_odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(Words(), 1));
    const auto nearest = hn::Add(bits, hn::Add(hn::Set(Words(), 0x7fff), is_odd));
    const auto quiet = hn::Or(bits, hn::Set(Words(), 0x400000));
    const auto is_nan = hn::RebindMask(Words(), hn::IsNaN(x));
    const auto upper = hn::ShiftRight<16>(hn::IfThenElse(is_nan, quiet, nearest));
    return hn::DemoteTo(Halves(), hn::BitCast(SignedWords(), upper));
  }
};

struct Half {
  static HWY_INLINE Vector widened(HalfVector x) {
    return hn::PromoteTo(Floats(), hn::BitCast(HalfFloats(), x));
  }
  static HWY_INLINE HalfVector rounded(Vector x) {
    return hn::BitCast(Halves(), hn::DemoteTo(HalfFloats(), x));
  }
};

template <typename Format>
void widen(const uint16_t* x, float* out, int64_t count) {
  const Halves halves;
  const Floats floats;
  const auto step = static_cast<int64_t>(hn::Lanes(floats));
  int64_t i = 0;
  for (; i + step <= count; i += step)
    hn::StoreU(Format::widened(hn::LoadU(halves, x + i)), floats, out + i);
  if (i == count) return;
  HWY_ALIGN uint16_t tail[hn::MaxLanes(Floats())] = {};
  HWY_ALIGN float results[hn::MaxLanes(Floats())];
  std::copy(x + i, x + count, tail);
  hn::Store(Format::widened(hn::Load(halves, tail)), floats, results);
  std::copy(results, results + (count - i), out + i);
}

template <typename Format>
void round_to(const float* x, uint16_t* out, int64_t count) {
  const Halves halves;
  const Floats floats;
  const auto step = static_cast<int64_t>(hn::Lanes(floats));
  int64_t i = 0;
  for (; i + step <= count; i += step)
    hn::StoreU(Format::rounded(hn::LoadU(floats, x + i)), halves, out + i);
  if (i == count) return;
  HWY_ALIGN float tail[hn::MaxLanes(Floats())] = {};
  HWY_ALIGN uint16_t results[hn::MaxLanes(Floats())];
  std::copy(x + i, x + count, tail);
  hn::Store(Format::rounded(hn::Load(floats, tail)), halves, results);
  std::copy(results, results + (count - i), out + i);
}

WidenLoop widen_of_target(bool is_brain) {
  return is_brain ? widen<Brain> : widen<Half>;
}
RoundLoop round_of_target(bool is_brain) {
  return is_brain ? round_to<Brain> : round_to<Half>;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera {
namespace {

HWY_EXPORT(widen_of_target);
HWY_EXPORT(round_of_target);

}  // namespace

WidenLoop find_widen_loop(DType dtype) {
  return HWY_DYNAMIC_DISPATCH(widen_of_target)(dtype == DType::kBF16);
}
RoundLoop find_round_loop(DType dtype) {
  return HWY_DYNAMIC_DISPATCH(round_of_target)(dtype == DType::kBF16);
}

}  // namespace tessera
#endif  // HWY_ONCE
