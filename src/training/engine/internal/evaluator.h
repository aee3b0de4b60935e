// Evaluates a network on held-out data, which training never sees.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "training/engine/internal/metrics.h"
#include "training/engine/internal/programs/program_set.h"
#include "training/engine/run_data.h"

namespace tessera {

class Evaluator {
 public:
  /// `programs` outlives it.
  Evaluator(ProgramSet& programs, std::shared_ptr<const RunData> data)
      : programs_(programs), data_(std::move(data)) {}
  Evaluator(const Evaluator&) = delete;  // inputs_ points into it
  Evaluator& operator=(const Evaluator&) = delete;

  /// Evaluates the first `batches` batches of the held-out data (0: all), in order, without
  /// dropout. The last one is filled up with rows that do not count, or left out:
  /// Network::ignored_target.
  Evaluation evaluate(int64_t batches, const OnEvaluatedBatch& on_batch);
  /// Does what can fail of an evaluation: compiles and loads its program, and checks that there is
  /// a batch of held-out data.
  void prepare();

 private:
  Sampler held_out_sampler() const;
  /// Fills rows of the batch. The targets of its padding rows do not count.
  void fill_batch(const Sampler& sampler, int64_t number, std::span<const Range> rows);
  /// Adds the text bytes that some rows count to theirs in `bytes_of_rows`.
  void count_bytes(std::span<const Range> rows, std::vector<int64_t>& bytes_of_rows);

  ProgramSet& programs_;
  std::shared_ptr<const RunData> data_;
  Batch batch_;
  std::map<std::string, const Tensor*> inputs_;
  TensorMap results_;
  std::vector<int> token_bytes_;  // by token of the vocabulary: its length as text
};

}  // namespace tessera
