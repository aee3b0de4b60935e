// Several ranks load one checkpoint together: each reads exactly the bytes that it needs, and
// together they verify the checksums.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "training/checkpoint/checkpoint.h"

namespace tessera {

/// A load of many boxes. A checksum covers a block of bytes. When a box has only some of them
/// (columns of a part that is stored in rows), their contribution to the checksum is kept until the
/// other bytes have been read.
///
///   threads  load_box: any number at the same time; finish() after all of them
///   throws   as Checkpoint::load_box
class JointLoad {
 public:
  /// The checkpoint outlives it.
  explicit JointLoad(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

  /// Fills `out` with a box of a tensor, dense and row-major. It reads only the bytes of the box,
  /// one run at a time.
  ///   counts  true for exactly one of the ranks that load the same elements
  void load_box(const std::string& tensor, const Box& box, std::byte* out, bool counts = true);
  /// Verifies the bytes that were read in pieces. A block that the counting boxes did not read
  /// completely is read again.
  void finish();

 private:
  /// The state of a block.
  struct Pieces {
    int64_t bytes = 0;  // of pieces that count
    uint32_t shares = 0;
    bool was_read = false;  // has any box read a part of it?
  };
  using PiecesOfPart = std::vector<Pieces>;  // by block

  void load_part(const std::string& tensor, const IndexTensor& stored, const IndexPart& part,
                 const Box& box, std::byte* out, bool counts);
  void finish_part(const std::string& tensor, const IndexPart& part, int64_t bytes,
                   const PiecesOfPart& blocks) const;

  const Checkpoint& checkpoint_;
  std::mutex mutex_;  // guards pieces_
  std::map<std::pair<std::string, const IndexPart*>, PiecesOfPart> pieces_;
};

}  // namespace tessera
