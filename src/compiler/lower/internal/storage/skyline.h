// The upper edge of the blocks that have a place, over time.
#pragma once

#include <queue>
#include <vector>

#include "compiler/lower/internal/storage/live_blocks.h"

namespace tessera {

/// The skyline over the instants 0, 1, ... of a layout to which blocks are added from below: pieces
/// of one height, such that neighbours differ in height.
class Skyline {
 public:
  /// One piece of height 0.
  ///   requires  instants > 0
  explicit Skyline(int instants);

  struct Piece {
    int begin = 0, end = 0;  // instants, both included
    int64_t height = 0;
  };
  /// The lowest piece, of equal ones the earliest.
  Piece lowest();
  /// Raises the lowest piece to its lower neighbour: what is below stays free.
  ///   requires  there is another piece
  void raise_lowest();
  /// Puts a block of `bytes` on the lowest piece.
  ///   requires  [begin, end] is within it
  void put_on_lowest(int begin, int end, int64_t bytes);

 private:
  static constexpr int64_t kNone = -1;

  struct IsHigher {
    bool operator()(const Piece& a, const Piece& b) const;
  };

  int64_t height_before(int instant) const;
  int64_t height_from(int instant) const;
  void remove(const Piece& piece);
  void add(Piece piece);

  std::vector<int64_t> height_;  // by the begin of a piece; kNone where none begins
  std::vector<int> end_;         // by the begin of a piece
  std::vector<int> begin_;       // by the end of a piece
  /// Also pieces that are no more: they are dropped when they come up.
  std::priority_queue<Piece, std::vector<Piece>, IsHigher> by_height_;
};

}  // namespace tessera
