// While and If: ops that run programs of their own, their regions (graph/graph.h). A region reads
// nothing but its inputs, so values from outside are operands of the op. It has no variables, and
// what it makes leaves it as an output.
//
//     while {carried=n}                  operands: n carried values as they begin, then captured
//     ones; results: the n carried values at the
//       condition(carried, captured)     end. The condition has one output, bool[]; the body n, of
//       the types of the carried values. The body(carried, captured)          body runs as long as
//       the condition holds, and at most max_iterations times where that is given.
//     if                                 operands: bool[], then captured values; results: those of
//     the region that is run. Both have the
//       then(captured)                   same outputs.
//       else(captured)
//
// Divided, each is one task on one mesh. Dims that an op of a region ties together are one factor
// of the whole op (region_rule), so the carried values lie alike before, between and after the
// iterations; what differs inside is exchanged inside, in each iteration. A predicate is needed
// whole by every rank: all take the same way. Gradients: autodiff/control_gradient.h.
//
// A carried value to which each iteration only adds may be held as addends in the loop (gradients
// of what the loop captures are), and is added up once behind it.
//
// Limits: marks do not name ops inside regions; inside, no op may need the rows of another
// micro-batch.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "ops/builder.h"

namespace tessera {

inline constexpr std::string_view kWhileKind = "while";
inline constexpr std::string_view kIfKind = "if";

/// What the ops of a region may read, as values of the region's graph, which its builder writes.
struct RegionValues {
  ValueId iteration;              // of a loop: i32[], 0 in the first
  std::vector<ValueId> carried;   // of a loop
  std::vector<ValueId> captured;  // what the op was given to read
};
/// Writes a region and returns its outputs. What they do not depend on is left out.
using RegionMaker =
    std::function<std::vector<ValueId>(Builder& region, const RegionValues& values)>;

struct LoopOptions {
  std::vector<ValueId> carried;   // as they begin
  std::vector<ValueId> captured;  // what condition and body read besides
  /// One bool[]: goes the loop on? None: it makes max_iterations iterations.
  RegionMaker condition = nullptr;
  RegionMaker body;  // the carried values after a iteration
  /// The most iterations. A gradient through the loop needs it.
  std::optional<int64_t> max_iterations = {};
  std::string_view name = kWhileKind;
};
struct Loop {
  ValueId
      iterations;  // i32[]: how many were made; the op carries its count as the first of its values
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

/// How a while or an if may be divided: dims of operands and results that ops of the regions divide
/// together are one factor, which is cut as often as the coarsest of these ops allows. Dims that an
/// op of a region takes whole straight from an operand stay whole.
///
///   ensures  a carried value has the same factors before and after; no set is linear; a factor is
///   a reduction for results that are sums
///            over it, which are left as addends: of a loop those to which every iteration adds and
///            that nothing else reads, as the gradients of what it captures
///   source   a closure by union-find over (value, dim): the fixed point of propagation over all
///   placements at once
ShardingRule region_rule(const OpView& op);

/// The values on which `results` depend, by index.
std::vector<bool> needed_for(const Graph& graph, const std::vector<ValueId>& results);

/// Runs a region of a while or an if on `operands` and returns its outputs. `iteration` is that of
/// the while; 0 in an if.
using RunRegion = std::function<std::vector<ReferenceTensor>(
    const Graph& region, const std::vector<const ReferenceTensor*>& operands, int64_t iteration)>;
/// The plain meaning of a while or an if, whose regions `run_region` runs.
void interpret_control(const ReferenceCall& call, const RunRegion& run_region);

}  // namespace tessera
