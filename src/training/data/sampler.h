// The sample of each row of each step's batch. Every rank computes it without communication.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/tensor/split.h"

namespace tessera {

enum class Shuffle { kNone, kBeforeSplit, kAfterSplit };
enum class Tail { kDrop, kPad };
std::string_view to_text(Shuffle shuffle);  // "none", "before_split", "after_split"
std::string_view to_text(Tail tail);        // "drop", "pad"

/// The rule by which samples become batches.
///
///   kNone         the batch is the next samples, in order
///   kBeforeSplit  one permutation of all samples for each epoch; the batch is its next rows, and
///                 data-parallel parts are row ranges of the batch. It does not depend on the
///                 number of parts: any plan reads the samples of the serial run
///   kAfterSplit   the samples are first cut into `parts` balanced pieces, each piece is permuted
///                 separately, and part p of the batch comes from piece p (a batch with fewer rows
///                 than parts has as many pieces as rows). It depends on `parts`, which
///                 `description()` names. With `weights` samples and rows are divided in
///                 proportion to them (weighted_part)
///   tail          kDrop: the epoch leaves out the samples that do not fill a batch; kPad: the
///                 first samples of the epoch fill the last batch
///   steps         every part has the same number of steps
struct SamplerOptions {
  int64_t samples = 0;
  int64_t batch = 1;                  // rows of the whole step's batch, over all parts
  int64_t parts = 1;                  // data-parallel parts; rows are divided by balanced_part
  std::vector<int64_t> weights = {};  // of the parts; empty: equal
  Shuffle shuffle = Shuffle::kBeforeSplit;
  Tail tail = Tail::kDrop;
  uint64_t seed = 0;
};

/// Maps rows to samples by the options.
///
///   threads  any number at the same time, because a sampler is immutable
///   memory   a few words, whatever the number of samples
class Sampler {
 public:
  ///   throws  UserError: 65 when there is no sample, a piece has no sample, or with kDrop there
  ///           are fewer samples than a batch has (with kAfterSplit: a piece has fewer than its
  ///           part of a batch); 78 for a batch without rows, or with kAfterSplit one of which a
  ///           part with a weight has none
  explicit Sampler(SamplerOptions options);

  const SamplerOptions& options() const { return options_; }
  int64_t steps_per_epoch() const { return steps_per_epoch_; }
  /// The sample of row `row` of the batch of step `step`, which is counted from 0 through all
  /// epochs.
  ///   time  O(1): a keyed permutation (cycle walking), without a table
  int64_t sample(int64_t step, int64_t row) const;
  /// Was the row's sample used before in the same epoch and repeated to fill the tail? Metrics may
  /// leave out such rows.
  bool padded(int64_t step, int64_t row) const;
  std::string description() const;

 private:
  struct Place;

  int64_t pieces() const;
  Range part_of(int64_t extent, int64_t piece) const;
  int64_t piece_of_row(int64_t row) const;
  int64_t steps_of_piece(int64_t piece) const;
  void check_piece(int64_t piece) const;
  Place place_of(int64_t step, int64_t row) const;

  SamplerOptions options_;
  int64_t steps_per_epoch_ = 0;
};

/// The image of `index` under the permutation of [0, count) that `key`, `epoch` and `piece` select.
///
///   requires  1 <= count <= 2^62, 0 <= index < count
///   time      expected O(1): the domain of the Feistel network is the next power of four, at most
///             four times too large; cycle walking from values outside [0, count) returns inside
///   source    Black and Rogaway, Ciphers with arbitrary finite domains, CT-RSA 2002
int64_t permuted(int64_t index, int64_t count, uint64_t key, int64_t epoch, int64_t piece);

}  // namespace tessera
