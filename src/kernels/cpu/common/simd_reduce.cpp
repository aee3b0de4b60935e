#include "kernels/cpu/common/simd_reduce.h"

#include <algorithm>
#include <limits>

#include "kernels/cpu/common/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/common/simd_reduce.cpp"
#include <hwy/foreach_target.h>
// The main header must come after foreach_target.
#include <hwy/highway.h>

// Compiled once for each target.
HWY_BEFORE_NAMESPACE();
namespace tessera {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <typename T>
using Tag = hn::CappedTag<T, kReduceLanes>;

template <typename T>
constexpr bool kIsFloat = std::numeric_limits<T>::has_infinity;

// Each operation on vectors, on scalars with the same result, and its identity. `of` computes with
// unsigned numbers where i32 wraps.
struct Sum {
  template <typename T>
  static constexpr T identity = T{0};
  template <class V>
  static HWY_INLINE V of_vectors(V a, V b) {
    return hn::Add(a, b);
  }
  static HWY_INLINE float apply(float a, float b) { return a + b; }
  static HWY_INLINE int32_t apply(int32_t a, int32_t b) {
    return static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
  }
};

struct Product {
  template <typename T>
  static constexpr T identity = T{1};
  template <class V>
  static HWY_INLINE V of_vectors(V a, V b) {
    return hn::Mul(a, b);
  }
  static HWY_INLINE float apply(float a, float b) { return a * b; }
  static HWY_INLINE int32_t apply(int32_t a, int32_t b) {
    return static_cast<int32_t>(static_cast<uint32_t>(a) * static_cast<uint32_t>(b));
  }
};

// A NaN is the maximum: in b because a > b is false, in a because it is tested.
struct Maximum {
  template <typename T>
  static constexpr T identity =
      kIsFloat<T> ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
  template <class V>
  static HWY_INLINE V of_vectors(V a, V b) {
    if constexpr (kIsFloat<hn::TFromV<V>>)
      return hn::IfThenElse(hn::Or(hn::Gt(a, b), hn::IsNaN(a)), a, b);
    else
      return hn::Max(a, b);
  }
  template <typename T>
  static HWY_INLINE T apply(T a, T b) {
    return a > b || a != a ? a : b;
  }
};

struct Minimum {
  template <typename T>
  static constexpr T identity =
      kIsFloat<T> ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max();
  template <class V>
  static HWY_INLINE V of_vectors(V a, V b) {
    if constexpr (kIsFloat<hn::TFromV<V>>)
      return hn::IfThenElse(hn::Or(hn::Lt(a, b), hn::IsNaN(a)), a, b);
    else
      return hn::Min(a, b);
  }
  template <typename T>
  static HWY_INLINE T apply(T a, T b) {
    return a < b || a != a ? a : b;
  }
};

// Bools are 0 or 1.
struct Any : Maximum {
  template <typename T>
  static constexpr T identity = T{0};
};
struct All : Minimum {
  template <typename T>
  static constexpr T identity = T{1};
};

template <class Operation, typename T>
T reduce_pair(T a, T b) {
  return Operation::apply(a, b);
}

// The number of vectors that have kReduceLanes lanes together.
template <class Operation, typename T>
struct LaneVectors {
  using D = Tag<T>;
  static constexpr int64_t kWidth = hn::MaxLanes(D());
  static constexpr int64_t kVectors = kReduceLanes / kWidth;
  hn::Vec<D> vectors[kVectors];

  HWY_INLINE LaneVectors() {
    for (auto& vector : vectors) vector = hn::Set(D(), Operation::template identity<T>);
  }
  HWY_INLINE void combine(const T* values) {
    for (int64_t v = 0; v < kVectors; ++v)
      vectors[v] = Operation::of_vectors(vectors[v], hn::LoadU(D(), values + v * kWidth));
  }
  HWY_INLINE T result() {
    for (int64_t half = kVectors / 2; half >= 1; half /= 2)
      for (int64_t v = 0; v < half; ++v)
        vectors[v] = Operation::of_vectors(vectors[v], vectors[v + half]);
    alignas(64) T lanes[kWidth];
    hn::Store(vectors[0], D(), lanes);
    for (int64_t half = kWidth / 2; half >= 1; half /= 2)
      for (int64_t lane = 0; lane < half; ++lane)
        lanes[lane] = Operation::apply(lanes[lane], lanes[lane + half]);
    return lanes[0];
  }
};

template <class Operation, typename T>
HWY_NOINLINE T reduce_block(const T* values, int64_t count) {
  LaneVectors<Operation, T> lanes;
  const int64_t tail = count % kReduceLanes;
  for (int64_t i = 0; i < count - tail; i += kReduceLanes) lanes.combine(values + i);
  if (tail > 0) {
    T last[kReduceLanes];
    std::fill_n(last, kReduceLanes, Operation::template identity<T>);
    std::copy(values + count - tail, values + count, last);
    lanes.combine(last);
  }
  return lanes.result();
}

// The compiler turns this into the target's vectors.
template <class Operation, typename T>
HWY_NOINLINE void reduce_rows(T* __restrict into, const T* __restrict values, int64_t count) {
  for (int64_t i = 0; i < count; ++i) into[i] = Operation::apply(into[i], values[i]);
}

template <class Operation, typename T>
ReduceLoops<T> loops_of() {
  return {Operation::template identity<T>, reduce_pair<Operation, T>, reduce_block<Operation, T>,
          reduce_rows<Operation, T>};
}

template <typename T>
ReduceLoops<T> number_loops(std::string_view operation) {
  if (operation == "sum") return loops_of<Sum, T>();
  if (operation == "prod") return loops_of<Product, T>();
  if (operation == "max") return loops_of<Maximum, T>();
  if (operation == "min") return loops_of<Minimum, T>();
  return {};
}

ReduceLoops<float> float_loops_of_target(std::string_view operation) {
  return number_loops<float>(operation);
}
ReduceLoops<int32_t> int_loops_of_target(std::string_view operation) {
  return number_loops<int32_t>(operation);
}
ReduceLoops<uint8_t> bool_loops_of_target(std::string_view operation) {
  if (operation == "any") return loops_of<Any, uint8_t>();
  if (operation == "all") return loops_of<All, uint8_t>();
  return {};
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera {
namespace {

HWY_EXPORT(float_loops_of_target);
HWY_EXPORT(int_loops_of_target);
HWY_EXPORT(bool_loops_of_target);

}  // namespace

template <>
ReduceLoops<float> find_reduce_loops<float>(std::string_view operation) {
  return HWY_DYNAMIC_DISPATCH(float_loops_of_target)(operation);
}
template <>
ReduceLoops<int32_t> find_reduce_loops<int32_t>(std::string_view operation) {
  return HWY_DYNAMIC_DISPATCH(int_loops_of_target)(operation);
}
template <>
ReduceLoops<uint8_t> find_reduce_loops<uint8_t>(std::string_view operation) {
  return HWY_DYNAMIC_DISPATCH(bool_loops_of_target)(operation);
}

}  // namespace tessera
#endif  // HWY_ONCE
