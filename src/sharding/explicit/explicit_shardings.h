// Placements as explicit shardings, and back.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/graph/graph.h"
#include "sharding/explicit/shardings.h"
#include "sharding/propagation/rules.h"
#include "sharding/propagation/sharded_graph.h"

namespace tessera {

/// Where a value that an op makes is kept unless something else is said: as it is made, with the
/// sums done that no op passes on.
///   sharded  has the rules and the shardings of all ops; its values are not read
DistAttr default_placement(const Graph& graph, const ShardedGraph& sharded, ValueId value);

/// The decisions of `sharded` as the section `name` of explicit shardings. `known` has the sections
/// before it: of another program than the training step only what its section kTrainSection does
/// not say is written.
///
///   requires  sharded = propagate(graph, ...), maybe with windows of choose_halos
///   ensures   apply_shardings(graph, sharded.meshes, known and the result, name) has the same mesh
///             and sharding of every op and the same canonical placement of every value
///   time      O(n log n) for n ops and values
ShardingSection to_shardings(const Graph& graph, const ShardedGraph& sharded, std::string_view name,
                             const Shardings& known = {});

/// The placements that explicit shardings say for the program `name`. Nothing is propagated.
///
///   meshes   as for propagate: with several micro-batches their first axis is kMicroBatchAxis.
///            Otherwise that axis is left out of what is read
///   throws   UserError (78) for an op, an input or a variable of the graph that has no entry, for
///            an entry of the section that names none of them or names one twice, and for an entry
///            that does not fit (sharding/explicit/internal/sharding_text.h)
///   time     O(n) for n ops and values
ShardedGraph apply_shardings(const Graph& graph, const Meshes& meshes, const Shardings& shardings,
                             std::string_view name, const RuleLookup& rules = catalogue_rule);

/// What a section says of the serial graph, before passes rewrite it.
struct SerialDecisions {
  std::vector<int> stages;  // by op; with one mesh all are 0
  std::vector<bool> kept;   // by op: must it stay, because a mark names it or its result?
};
/// Writes them into `section`, with `stages` for all ops of the graph. `known` as for resolve.
void serial_to_shardings(const Graph& serial, const SerialDecisions& decisions,
                         const Meshes& meshes, std::string_view name, const Shardings& known,
                         ShardingSection& section);
///   throws  UserError (78) for an op without a stage, and for a kept op that does not exist
SerialDecisions serial_decisions(const Graph& serial, const Meshes& meshes,
                                 const Shardings& shardings, std::string_view name);

/// The canonical placement of a value in training, without compiling.
///   throws  UserError (78) when there is none, or it does not fit
DistAttr training_placement(const Shardings& shardings, const std::string& value,
                            const Shape& shape, const Meshes& meshes);

}  // namespace tessera
