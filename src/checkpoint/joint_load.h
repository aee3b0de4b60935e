// Several ranks load one checkpoint together: each reads exactly the bytes that it needs, and
// together they verify them.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace tessera {

/// A load of many boxes. A checksum covers a block of bytes; where a box has only some of them
/// (columns of what was stored in rows), what they add to the checksum is kept until the others
/// have theirs.
///
///   threads  load_box: any number at once; finish() after all of them
///   throws   as Checkpoint::load_box
class JointLoad {
 public:
  /// The checkpoint outlives it.
  explicit JointLoad(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

  /// Fills `out` with a box of a tensor, dense and row-major. Reads its bytes and no others, a run
  /// of them at a time.
  ///   counts  of those that load the same elements, one counts
  void load_box(const std::string& tensor, const Box& box, std::byte* out, bool counts = true);
  /// Verifies what was read in pieces. A block that the boxes that count did not read whole is read
  /// again.
  void finish();

 private:
  /// What is known of a block.
  struct Pieces {
    int64_t bytes = 0;  // of pieces that count
    uint32_t shares = 0;
    bool was_read = false;  // in part, by anyone
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
