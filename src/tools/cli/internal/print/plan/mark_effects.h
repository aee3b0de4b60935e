// What each mark of a plan causes: the plan is compiled without it.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/internal/print/plan/plan_numbers.h"

namespace tessera {

/// Marks that are tried at most, in the order of the plan.
inline constexpr size_t kMaxTriedMarks = 8;

/// The numbers of a plan without one of its marks.
struct MarkEffect {
  size_t index = 0;  // of the mark in the plan
  std::string mark;  // "'blocks.*.attn.q.weight' P(None, \"tp\")"
  Bytes sent{0};     // that a rank receives
  Bytes memory{0};   // of the fullest rank
  int64_t notes = 0;
  std::string refused = {};  // why there is no plan without it; then there are no numbers
};

/// Compiles `graph` under `plan` without each of its first kMaxTriedMarks marks.
std::vector<MarkEffect> mark_effects(const Graph& graph, const Plan& plan);

/// A table, and a sentence about the mark that causes most of what is sent. "" without marks.
std::string mark_effects_text(const PlanNumbers& numbers, const std::vector<MarkEffect>& effects,
                              size_t marks);
Document mark_effects_document(const std::vector<MarkEffect>& effects);

}  // namespace tessera
