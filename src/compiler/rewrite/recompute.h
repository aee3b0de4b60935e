// Activations that the backward computes again, instead of keeping them from the forward.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "compiler/rewrite/internal/draft.h"

namespace tessera {

/// A decision of the plan.
struct Recompute {
  enum class Kind {
    kNone,       // every result that the backward reads is kept
    kSelective,  // results that are cheap to compute, so that the fewest bytes are kept
    kFull,  // all results inside of the repeated layers of the model (ir/graph/repeated_layers.h):
            // of a layer only what later ones read is kept
    kAuto,      // those that cost least, so that a rank keeps at most `limit`; the compiler makes
                // patterns of it (compiler/lower/recompute_choice.h)
    kPatterns,  // the results of the ops whose names match one of `patterns`
  };
  Kind kind = Kind::kNone;
  std::vector<std::string> patterns = {};  // of matches() in base/text/text.h
  /// Of kAuto: the bytes of results of the forward that a rank keeps for the backward.
  Bytes limit{0};

  bool operator==(const Recompute&) const = default;
};

/// Flops per element that an op reads and writes, up to which `selective` computes it again: more
/// than activations and normalizations have, and less than products of matrices.
inline constexpr double kCheapFlopsPerElement = 16;

/// By value: is it never computed again? These are the outputs of the program, the next values of
/// variables, the numbers that the backward compares for equality (the gradient of a maximum finds
/// the greatest element by its bits, and a second computation may lie elsewhere and round its sums
/// otherwise), and casts of variables: they are the same for all micro-batches, so they would be
/// kept from the begin of the step.
std::vector<bool> values_computed_once(const Graph& graph);

/// By value: is it computed again? RewriteBounds::recomputed.
///
///   requires   not kAuto
///   selective  the least bytes of results that the backward reads or makes others from, where only
///              ops of at most kCheapFlopsPerElement are computed again: a minimum cut between what
///              cannot be computed again and what the backward reads, as in the partitioner of
///              PyTorch's AOTAutograd and in Jain et al., "Checkmate", MLSys 2020
///   ensures    only results of forward ops, none of values_computed_once; random numbers are
///              the same again, since their keys are attributes. State of the model is not
///              written again, since only what the backward reads is computed
///   time       O(ops) for all but selective
std::vector<bool> recomputed_values(const Graph& graph, const Recompute& choice);

/// The pass "recompute": what RewriteBounds::recomputed says.
void recompute_in_backward(GraphDraft& draft);

}  // namespace tessera
