// The blocks that have no place yet, searched by the time in which they live.
#pragma once

#include <limits>
#include <span>
#include <vector>

#include "compiler/lower/internal/storage/live_blocks.h"

namespace tessera {

/// Blocks in an order, each of which is taken once. It is a k-d tree over begin and end: a node
/// knows the foremost block below it that is not taken yet.
class UnplacedBlocks {
 public:
  /// No block waits before the first restart.
  ///   time  O(n log n)
  explicit UnplacedBlocks(const LiveBlocks& blocks);

  /// All blocks wait again, in this order.
  ///   requires  each block is in `order` once
  ///   time      O(n)
  void restart(std::span<const BlockIndex> order);

  /// Takes the foremost block that lives within [begin, end]; none when there is no such block.
  ///   time  about O(log n), at most O(sqrt n)
  BlockIndex take(int begin, int end);

  /// How many nodes were visited so far: a measure of the work that is the same on every machine.
  int64_t visits() const { return visits_; }

 private:
  static constexpr int kTaken = std::numeric_limits<int>::max();  // after every rank

  /// A block, at its place in a leaf.
  struct Slot {
    int begin = 0, end = 0;
    int rank = kTaken;  // place in the order
    int leaf = 0;
    BlockIndex block;
  };
  /// Of the blocks below it that wait.
  struct Node {
    int min_rank = kTaken;
    int last_begin = -1;
    int first_end = kTaken;
  };

  void divide(int node, int low, int high, bool by_end);
  Node node_of_leaf(int leaf) const;
  Node node_above(int node) const;
  void find(int node, int begin, int end, Slot*& best);

  int leaves_ = 1;               // a power of two; node 1 is the root, leaf i is node leaves_ + i
  std::vector<Slot> slots_;      // leaf by leaf
  std::vector<int> first_slot_;  // by leaf; after the last one the number of slots
  std::vector<Node> nodes_;
  IndexedVector<BlockIndex, int> slot_of_;
  int64_t visits_ = 0;
};

}  // namespace tessera
