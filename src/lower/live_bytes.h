// The bytes of a mesh's arena that are alive while each instruction runs in each micro-batch, for
// passes that move instructions and may not raise the most of them.
#pragma once

#include <vector>

#include "lower/instances.h"
#include "lower/program.h"

namespace tessera {

/// Sums over ranges of instructions, and the largest of a range.
///   time  O(log n) a call
class RangeMaximum {
 public:
  explicit RangeMaximum(int size);
  /// Adds to the elements of [begin, end).
  void add(int begin, int end, int64_t amount) { add(1, 0, size_, begin, end, amount); }
  /// Of [begin, end); the least number of int64_t for an empty range.
  int64_t max(int begin, int end) const { return max(1, 0, size_, begin, end); }

 private:
  struct Node {
    int64_t added = 0;  // to all elements below
    int64_t max = 0;    // of the elements below, with what was added here and below
  };
  void add(int node, int from, int to, int begin, int end, int64_t amount);
  int64_t max(int node, int from, int to, int begin, int end) const;

  int size_ = 1;  // a power of two
  std::vector<Node> nodes_;
};

/// The bytes that are alive at each instance, at the rank at the origin. A kernel counts its
/// operands and its results together, so this is an upper bound where a result is written over an
/// operand.
class LiveBytes {
 public:
  LiveBytes(const Program& program, const InstanceUses& uses, MeshIndex mesh);

  /// A lower bound of the bytes that the arena needs for the program as it was at first: operands
  /// that a kernel may write over are left out.
  int64_t least_peak() const { return least_peak_; }
  /// The most bytes at one of the instances [begin, end).
  int64_t most(Time begin, Time end) const { return bytes_.max(begin.value(), end.value()); }
  /// A register is alive at [begin, end), too; or no longer.
  void add(Time begin, Time end, Bytes bytes) {
    bytes_.add(begin.value(), end.value(), bytes.value());
  }
  void remove(Time begin, Time end, Bytes bytes) {
    bytes_.add(begin.value(), end.value(), -bytes.value());
  }

 private:
  RangeMaximum bytes_;
  int64_t least_peak_ = 0;
};

}  // namespace tessera
