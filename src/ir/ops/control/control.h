// While and If: ops that run programs of their own, which are their regions (ir/graph/graph.h). A
// region reads only its inputs, so values from outside are operands of the op. It has no variables,
// and its results leave it as outputs.
//
//     while {carried=n}
//       condition(carried, captured)
//       body(carried, captured)
//
// The operands of a while are the n initial carried values, then the captured values. Its results
// are the final carried values. The condition has one output, bool[]. The body has n outputs of the
// types of the carried values. The body runs as long as the condition is true, and at most
// max_iterations times when that is given.
//
//     if
//       then(captured)
//       else(captured)
//
// The operands of an if are bool[], then the captured values. Its results are those of the region
// that runs. Both regions have the same outputs.
//
// In a plan each is one task on one mesh. Dims that an op of a region ties together are one factor
// of the whole op (region_rule), so the carried values have the same placement before, between and
// after the iterations. Exchanges of the region happen inside, in each iteration; what depends on
// captured values alone is computed and exchanged before the loop
// (ir/ops/internal/control/invariants.h). Every rank needs the whole predicate, so all ranks take
// the same branch. Gradients: ir/autodiff/internal/control_gradient.h.
//
// A carried value to which each iteration only adds may be partial in the loop, as gradients of
// captured values are. It is reduced once, after the loop.
//
// Limits: marks do not name ops inside regions; no op inside may need the rows of another
// micro-batch.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "ir/ops/builder.h"

namespace tessera {

inline constexpr std::string_view kWhileKind = "while";
inline constexpr std::string_view kIfKind = "if";

/// The values that the ops of a region may read, in the region's graph, which its builder writes.
struct RegionValues {
  ValueId iteration;              // i32[] of a loop, 0 in the first iteration
  std::vector<ValueId> carried;   // of a loop
  std::vector<ValueId> captured;  // the values from outside
};
/// Writes a region and returns its outputs. Ops on which no output depends are left out.
using RegionMaker =
    std::function<std::vector<ValueId>(Builder& region, const RegionValues& values)>;

struct LoopOptions {
  std::vector<ValueId> carried;   // the initial values
  std::vector<ValueId> captured;  // further values that condition and body read
  /// Makes one bool[], which is true while the loop continues. nullptr: the loop has max_iterations
  /// iterations.
  RegionMaker condition = nullptr;
  RegionMaker body;  // makes the carried values after an iteration
  /// A gradient through the loop requires it.
  std::optional<int64_t> max_iterations = {};
  std::string_view name = kWhileKind;
};
struct Loop {
  /// i32[]: the number of iterations. The op carries the count as the first of its values.
  ValueId iterations;
  std::vector<ValueId> results;
};
/// throws  UserError (65) when a region does not fit
Loop build_while(Builder& builder, const LoopOptions& options);

struct BranchOptions {
  ValueId predicate;  // bool[]
  std::vector<ValueId> captured;
  RegionMaker then_region;
  RegionMaker else_region;
  std::string_view name = kIfKind;
};
/// throws  UserError (65) when the regions do not fit each other
std::vector<ValueId> build_if(Builder& builder, const BranchOptions& options);

/// The parts of a while, by name.
struct WhileView {
  const Graph& condition;
  const Graph& body;
  size_t carried;
  std::optional<int64_t> max_iterations;
};
/// requires  a while that passed infer
WhileView while_view(const std::vector<GraphPtr>& regions, const Attributes& attributes);

/// The sharding rule of a while or an if. Dims of operands and results that ops of the regions
/// divide together are one factor, which has as few parts as the coarsest of these ops allows. Dims
/// of operands that an op of a region needs whole stay whole.
///
///   ensures  a carried value has the same factors before and after; no set is linear; a factor is
///            a reduction for results that are sums over it, which stay partial. In a loop these
///            are the carried values to which every iteration adds and which nothing else reads,
///            such as the gradients of captured values
///   source   a closure by union-find over (value, dim): the fixed point of propagation over all
///            placements at once
ShardingRule region_rule(const OpView& op);

/// By index: is the value needed for `results`?
std::vector<bool> needed_for(const Graph& graph, const std::vector<ValueId>& results);

/// Runs a region of a while or an if on `operands` and returns its outputs. `iteration` is the
/// iteration of the while; 0 in an if.
using RunRegion = std::function<std::vector<ReferenceTensor>(
    const Graph& region, const std::vector<const ReferenceTensor*>& operands, int64_t iteration)>;
/// The plain reference of a while or an if, whose regions `run_region` runs.
void interpret_control(const ReferenceCall& call, const RunRegion& run_region);

}  // namespace tessera
