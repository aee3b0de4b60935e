// The inner loops of reductions, in the widest vectors that this machine has, and the order in
// which they combine values.
//
// The order is the same for all layouts, so that the result for an output element depends only on
// the values v_0, v_1, ... that it combines (in row-major order of the reduced dims):
//   a block  kReduceBlock values; lane l of kReduceLanes combines v_l, v_(l + lanes), ...; then
//            lanes l and l + lanes/2 are combined, and so on
//   all      block results are combined pairwise, as a tree whose left parts are full
// The rounding error of a sum of n values is therefore at most (n/lanes for n up to a block, then 1
// per doubling) + 4 roundings of the sum of absolute values.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace tessera {

inline constexpr int64_t kReduceLanes = 16;
inline constexpr int64_t kReduceBlock = 256;
/// The levels of the tree above the blocks: enough for 2^40 values.
inline constexpr int kReduceLevels = 32;

/// A combination of values of T. T is float, int32_t (wraps) or uint8_t (bool: max is any, min is
/// all).
template <typename T>
struct ReduceLoops {
  T identity{};
  T (*pair)(T a, T b) = nullptr;
  /// Combines a block of up to kReduceBlock adjacent values.
  T (*block)(const T* values, int64_t count) = nullptr;
  /// into[i] = into[i] combined with values[i]. The two do not overlap.
  void (*rows)(T* into, const T* values, int64_t count) = nullptr;
};

/// The loops of reduce.OP; they are nullptr when there is no such operation for T.
template <typename T>
ReduceLoops<T> find_reduce_loops(std::string_view operation);

/// Combines block results pairwise. They are given one by one.
template <typename T>
class PairwiseTree {
 public:
  explicit PairwiseTree(const ReduceLoops<T>& loops) : loops_(loops) {}

  void add(T value) {
    int level = 0;
    // A carry of a binary counter: two results of one size become one of twice the size.
    for (; (blocks_ >> level) & 1; ++level) value = loops_.pair(partial_[level], value);
    partial_[level] = value;
    ++blocks_;
  }

  T result() const {
    T value = loops_.identity;
    for (int level = 0; level < kReduceLevels; ++level)
      if ((blocks_ >> level) & 1) value = loops_.pair(partial_[level], value);
    return value;
  }

 private:
  const ReduceLoops<T>& loops_;
  T partial_[kReduceLevels];
  uint64_t blocks_ = 0;
};

/// Combines all of `count` adjacent values.
template <typename T>
T reduce_run(const ReduceLoops<T>& loops, const T* values, int64_t count) {
  if (count <= kReduceBlock) return loops.block(values, count);
  PairwiseTree<T> tree(loops);
  for (int64_t begin = 0; begin < count; begin += kReduceBlock)
    tree.add(
        loops.block(values + begin, count - begin < kReduceBlock ? count - begin : kReduceBlock));
  return tree.result();
}

}  // namespace tessera
