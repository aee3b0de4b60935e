// The bytes of a mesh's arena that are alive while each instruction runs in each micro-batch, for
// passes that move instructions and may not raise the most of them.
#pragma once

#include <vector>

#include "compiler/lower/internal/instances.h"
#include "compiler/lower/internal/live_ranges.h"
#include "compiler/lower/internal/program.h"

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
/// operand. Numbers are kept for the moments of the mesh only; what is alive at another instance is
/// at most what is at the moment before it. So the stages of a pipeline need not have a number for
/// each instance of all stages.
class LiveBytes {
 public:
  ///   moments  of the mesh, ascending: between two of them nothing of it becomes alive
  LiveBytes(const Program& program, const InstanceUses& uses, const LiveRanges& live,
            MeshIndex mesh, std::vector<Time> moments);

  /// A lower bound of the bytes that the arena needs for the program as it was at first: operands
  /// that a kernel may write over are left out.
  int64_t min_peak() const { return min_peak_; }
  /// The last moment that is not after `time`.
  Time moment_at(Time time) const { return moments_[position(time + 1) - 1]; }
  /// The most bytes at one of the moments in [begin, end); the least number of int64_t when there
  /// is none.
  int64_t largest(Time begin, Time end) const { return bytes_.max(position(begin), position(end)); }
  /// A register is alive at the moments in [begin, end), too; or no longer.
  void add(Time begin, Time end, Bytes bytes) {
    bytes_.add(position(begin), position(end), bytes.value());
  }
  void remove(Time begin, Time end, Bytes bytes) {
    bytes_.add(position(begin), position(end), -bytes.value());
  }

 private:
  /// Of the first moment that is not before `time`.
  int position(Time time) const;

  std::vector<Time> moments_;
  RangeMaximum bytes_;
  int64_t min_peak_ = 0;
};

/// By mesh. The moments of a mesh are the first instance of all, and those that read or write a
/// register of it.
///   time  O(n log n) for n instances
IndexedVector<MeshIndex, LiveBytes> live_bytes(const Program& program, const InstanceUses& uses);

}  // namespace tessera
