// Sorts the pieces of a step into passes, and derives the shape of the pipeline.
#pragma once

#include <optional>
#include <vector>

#include "compiler/schedule/internal/passes.h"
#include "compiler/schedule/internal/pipeline_step.h"

namespace tessera {

/// Pieces by the pass that they belong to.
class PipelinePieces {
 public:
  PipelinePieces(const std::vector<PipelineStep>& work, const PipelineOptions& options);

  /// Is the piece done once and needed by a micro-batch, directly or not?
  bool is_prologue(int piece) const { return prologue_[piece]; }
  /// F, B or W; nullopt for a piece that is done once per step or is part of the prologue.
  std::optional<PassKind> pass_of(int piece) const { return pass_[piece]; }
  /// The pieces of a pass, in program order. Those of BW are those of B and W.
  std::vector<int> at(const Pass& pass) const;
  /// A piece of a pass, and one of another pass of the same micro-batch that it needs.
  struct Link {
    int piece, needed;
  };
  /// The first one between passes of two kinds or stages; nullopt: `pass` does not need the other.
  std::optional<Link> link(const PassNeed& pass, const PassNeed& needed) const;
  /// The needs between passes of one micro-batch, and the time of each pass, which is the mean over
  /// the micro-batches.
  PipelineShape shape() const;

 private:
  bool is_link(size_t piece, int needed) const;
  void find_prologue();
  void find_passes();
  void mark_chains_to_the_last(int stage, std::vector<bool>& leads) const;

  const std::vector<PipelineStep>& work_;
  const PipelineOptions& options_;
  int stages_;
  std::vector<bool> prologue_;
  std::vector<std::optional<PassKind>> pass_;
  PassTable<std::vector<int>> lists_;  // the pieces of each pass, in program order
};

}  // namespace tessera
