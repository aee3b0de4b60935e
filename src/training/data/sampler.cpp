#include "training/data/sampler.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/random.h"

namespace tessera {

std::string_view to_text(Shuffle shuffle) {
  switch (shuffle) {
    case Shuffle::kNone: return "none";
    case Shuffle::kBeforeSplit: return "before_split";
    case Shuffle::kAfterSplit: return "after_split";
  }
  throw InternalError("unknown way to shuffle");
}

std::string_view to_text(Tail tail) {
  switch (tail) {
    case Tail::kDrop: return "drop";
    case Tail::kPad: return "pad";
  }
  throw InternalError("unknown way to end an epoch");
}

/// The place of a row: its epoch, its piece of the samples, and its position in the order in which
/// the epoch visits the piece.
struct Sampler::Place {
  int64_t epoch = 0;
  int64_t piece = 0;
  Range samples;         // of the piece
  int64_t position = 0;  // samples.size() or more: fills the tail
};

Sampler::Sampler(SamplerOptions options) : options_(std::move(options)) {
  ensure(options_.parts >= 1, "a sampler has at least one part");
  if (options_.batch < 1)
    throw UserError(fmt::format("a batch of {} rows cannot be filled", options_.batch),
                    "a batch has at least one row", "set the batch to 1 or more",
                    ExitCode::kBadConfig);
  if (options_.samples < 1)
    throw UserError("there is no sample to make batches of",
                    fmt::format("the data has {} samples", options_.samples), "give it more data",
                    ExitCode::kBadData);
  for (int64_t piece = 0; piece < pieces(); ++piece) {
    check_piece(piece);
    const int64_t steps = steps_of_piece(piece);
    const bool first = piece == 0;
    if (options_.tail == Tail::kDrop)
      steps_per_epoch_ = first ? steps : std::min(steps_per_epoch_, steps);
    if (options_.tail == Tail::kPad) steps_per_epoch_ = std::max(steps_per_epoch_, steps);
  }
}

int64_t Sampler::pieces() const {
  if (options_.shuffle != Shuffle::kAfterSplit) return 1;
  return options_.weights.empty() ? std::min(options_.parts, options_.batch)
                                  : std::ssize(options_.weights);
}

Range Sampler::part_of(int64_t extent, int64_t piece) const {
  const bool is_whole = options_.shuffle != Shuffle::kAfterSplit;
  return AxisPart{0, pieces(), is_whole ? std::vector<int64_t>() : options_.weights}.part(extent,
                                                                                          piece);
}

void Sampler::check_piece(int64_t piece) const {
  const int64_t samples = part_of(options_.samples, piece).size();
  const int64_t rows = part_of(options_.batch, piece).size();
  if (rows == 0)
    throw UserError(fmt::format("a batch of {} rows has none for part {} of {}", options_.batch,
                                piece, pieces()),
                    "shuffled after the split, the samples of that part would never be used",
                    "make the batch larger, or shuffle = \"before_split\"", ExitCode::kBadConfig);
  const bool drop = options_.tail == Tail::kDrop;
  if (samples >= (drop ? rows : 1)) return;
  const std::string of_piece =
      pieces() == 1
          ? ""
          : fmt::format("; shuffled after the split, part {} of {} has {} samples for {} rows",
                        piece, pieces(), samples, rows);
  throw UserError(
      fmt::format("{} samples do not fill one batch of {} rows", options_.samples, options_.batch),
      (drop
           ? "the tail of an epoch that does not fill a batch is dropped, and nothing would be left"
           : "every part needs a sample") +
          of_piece,
      drop ? "give it more data, make the batch smaller, or fill the tail (tail = \"pad\")"
           : "give it more data, or use fewer parts",
      ExitCode::kBadData);
}

int64_t Sampler::steps_of_piece(int64_t piece) const {
  const int64_t samples = part_of(options_.samples, piece).size();
  const int64_t rows = part_of(options_.batch, piece).size();
  return options_.tail == Tail::kDrop ? samples / rows : (samples + rows - 1) / rows;
}

/// The inverse of balanced_part: the first `larger` pieces have one more row.
int64_t Sampler::piece_of_row(int64_t row) const {
  if (pieces() > 1 && !options_.weights.empty()) {
    int64_t piece = 0;
    while (part_of(options_.batch, piece).end <= row) ++piece;
    return piece;
  }
  const int64_t rows = options_.batch / pieces();
  const int64_t larger = options_.batch % pieces();
  const int64_t in_larger = larger * (rows + 1);
  return row < in_larger ? row / (rows + 1) : larger + (row - in_larger) / rows;
}

Sampler::Place Sampler::place_of(int64_t step, int64_t row) const {
  ensure(step >= 0 && row >= 0 && row < options_.batch, "a row of a batch");
  const int64_t piece = piece_of_row(row);
  const Range rows = part_of(options_.batch, piece);
  return {.epoch = step / steps_per_epoch_,
          .piece = piece,
          .samples = part_of(options_.samples, piece),
          .position = step % steps_per_epoch_ * rows.size() + row - rows.begin};
}

int64_t Sampler::sample(int64_t step, int64_t row) const {
  const Place place = place_of(step, row);
  const int64_t position = place.position % place.samples.size();
  if (options_.shuffle == Shuffle::kNone) return place.samples.begin + position;
  const uint64_t key = random_key(options_.seed, "data.shuffle");
  return place.samples.begin +
         permuted(position, place.samples.size(), key, place.epoch, place.piece);
}

bool Sampler::padded(int64_t step, int64_t row) const {
  const Place place = place_of(step, row);
  return place.position >= place.samples.size();
}

std::string Sampler::description() const {
  std::string text =
      fmt::format("{} samples in {} steps of {} rows an epoch; shuffle {}", options_.samples,
                  steps_per_epoch_, options_.batch, to_text(options_.shuffle));
  if (options_.shuffle != Shuffle::kNone) text += fmt::format(" with seed {}", options_.seed);
  if (options_.shuffle == Shuffle::kAfterSplit)
    text +=
        options_.weights.empty()
            ? fmt::format(" into {} parts (with another number of parts the batches are others)",
                          options_.parts)
            : fmt::format(" into parts of weights {} (with other parts the batches are others)",
                          fmt::join(options_.weights, ":"));
  return text + fmt::format("; tail {}", to_text(options_.tail));
}

}  // namespace tessera
