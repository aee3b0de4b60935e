// In which order the stages of a pipeline do the forward and backward of their micro-batches. It knows pieces of work and who needs whom;
// not what they compute.
#pragma once

#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace tessera {

enum class PipelineKind {
  kForwardThenBackward,    // all forwards, then all backwards: every stage keeps all m micro-batches
  kOneForwardOneBackward,  // stage s of p starts backward after min(m, p - s) forwards and then alternates: it keeps so many
};
std::string_view to_text(PipelineKind kind);  // "f-then-b", "1f1b"
/// throws  UserError (78)
PipelineKind parse_pipeline_kind(std::string_view text);

/// A piece of work in program order.
struct PipelineStep {
  int stage = 0;
  Role role = Role::kForward;
  int micro_batch = -1;    // -1: once a step
  std::vector<int> needs;  // indices of earlier pieces
};

/// Micro-batches whose forward a stage does before its first backward, when `to_end` stages (itself counted) lie between it and the end.
int warm_up(PipelineKind kind, int micro_batches, int to_end);

/// An order of all pieces in which each comes after what it needs, and on each stage: first what is done once and what any micro-batch
/// needs of it (the prologue), then forward and backward of the micro-batches as `kind` says, then the rest (the epilogue: the optimizer).
///
///   stages    form a DAG by the needs of forward pieces; the distance of a stage to the end is that of the longest way
///   returns   indices into `work`
///   throws    UserError (78) when the stages need each other in a circle
///   source    Narayanan et al., PipeDream-flush (arXiv 2006.09503); Huang et al., GPipe (arXiv 1811.06965)
std::vector<int> pipeline_order(const std::vector<PipelineStep>& work, int stages, int micro_batches, PipelineKind kind);

}  // namespace tessera
