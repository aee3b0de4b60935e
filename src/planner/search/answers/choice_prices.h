// What other placements of one op, input or variable would cost, and what binds the one that a plan
// has.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/search/internal/candidates/candidate.h"
#include "planner/search/sources/incumbents.h"

namespace tessera {

/// A placement of an op or a value.
struct PricedChoice {
  std::string text;   // of an op "([@x, *], [*, *]) -> [@x, *]", of a value "[@x, *]"
  Seconds kernel{0};  // of the op; 0 for a value
  /// Of a step of the search problem with the best placements of everything else (min-marginal);
  /// nullopt: no placements of everything else keep the memory and the constraints.
  std::optional<Seconds> time = {};
};

struct ChoicePrices {
  std::string name;  // of the op or the value
  int64_t identical =
      1;  // ops or values of repeated layers, itself included, that are placed alike
  PricedChoice chosen;
  std::vector<PricedChoice> others;  // in ascending order of their times, then those without one
  int64_t not_priced = 0;  // others with dearer kernels, beyond SearchPolicy::priced_choices
  Seconds best{0};         // of a step when nothing is fixed, within the memory
  bool is_fixed = false;   // a mark or a fixed degree is on it
  std::optional<Seconds> unfixed = {};  // best without that mark or degree; of is_fixed
  /// Of a step with any memory, and the placement that the op or value then has.
  Seconds with_any_memory{0};
  std::string with_any_memory_text;

  bool memory_binds() const { return with_any_memory < best; }
};

/// Solves the problem of the search on the mesh of the plan with the op or value fixed to each of
/// its placements in turn. Nothing is hidden behind kernels in these times, and the strategies are
/// those of the search (placement_search.h). Each of the searches has little work: where memory
/// binds, its time is the best one that it found.
///
///   name      of an op, an input or a variable of the graph after the passes of the compiler
///   requires  the plan obeys the constraints
///   returns   nullopt when the plan has several meshes or micro-batches, which are not searched,
///             or when the graph has no such op, input or variable
///   time      that of up to SearchPolicy::priced_choices + 4 searches
std::optional<ChoicePrices> choice_prices(const PlanRequest& request,
                                          const PlanConstraints& constraints, const Plan& plan,
                                          const std::string& name);

/// The placement that a plan gives to an op, an input or a variable, as PricedChoice::text; "" when
/// its program has none of this name.
std::string choice_text(const PlacedGraph& placed, const std::string& name);

}  // namespace tessera
