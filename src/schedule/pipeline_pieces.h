// The pieces of a step sorted into passes, and the shape of the pipeline that they make.
#pragma once

#include <optional>
#include <vector>

#include "schedule/passes.h"
#include "schedule/pipeline_step.h"

namespace tessera {

/// Pieces by the pass that they belong to.
class PipelinePieces {
 public:
  PipelinePieces(const std::vector<PipelineStep>& work, const PipelineOptions& options);

  /// Done once and needed by a micro-batch, directly or not.
  bool is_prologue(int piece) const { return prologue_[piece]; }
  /// F, B or W; none: done once a step, or prologue.
  std::optional<PassKind> pass_of(int piece) const { return pass_[piece]; }
  /// In program order. Those of BW are those of B and W.
  std::vector<int> of(const Pass& pass) const;
  /// What passes of one micro-batch need of each other, and how long each takes: the mean over the
  /// micro-batches.
  PipelineShape shape() const;

 private:
  void find_prologue();
  void find_passes();
  void mark_chain_to_the_last(int stage, int micro_batch, std::vector<bool>& leads) const;

  const std::vector<PipelineStep>& work_;
  const PipelineOptions& options_;
  int stages_;
  std::vector<bool> prologue_;
  std::vector<std::optional<PassKind>> pass_;
  PassTable<std::vector<int>> lists_;  // the pieces of each pass, in program order
};

}  // namespace tessera
