// Cuts a graph into the stages of a pipeline.
#pragma once

#include <string>
#include <vector>

#include "ir/graph/graph.h"

namespace tessera {

/// The stage of each forward op, by position among the forward ops; stages are runs of ops in
/// program order.
///
///   even      the work of the busiest stage is as small as the boundaries allow. Among cuts whose
///             busiest stage has at most 5% more, the least bytes are sent
///   boundary  a position between two ops where the values that later ops read do not include
///             those of another position nearby: not inside a residual branch. Where boundaries
///             would make the busiest stage more than half as busy again as any cuts, any will do
///   work      every stage has at least a hundredth of an even share
///   throws    UserError (78) when that is impossible, with the most stages
///   time      O(stages x positions^2)
std::vector<int> even_stages(const Graph& graph, int stages);

/// The stage of each forward op, by position among them, where the stages end after the last ops
/// of some names.
///
///   names   of ops, or of scopes: "blocks.5" is "blocks.5.*", too; in program order
///   throws  UserError (78) for a name that no forward op has, or after which no op follows, and
///           for names in another order
std::vector<int> stages_after(const Graph& graph, const std::vector<std::string>& names);

/// The stage of each forward op, by position among them, where each stage has some repeated layers
/// (ir/graph/repeated_layers.h). What is before them is on the first stage, what is behind them on
/// the last one.
///
///   layers  of each stage; empty: as many on each, and one less on stages at both ends, which have
///           the embedding and the head, where they are not a multiple of the stages
///   throws  UserError (78): a number of stages or layers that is not that of the graph, and a
///   stage
///           without ops
std::vector<int> stages_of_layers(const Graph& graph, std::vector<int64_t> layers, int stages);

/// How many repeated layers begin on each of `count` stages.
///   stages  of each forward op, by position among them
std::vector<int64_t> layers_of_stages(const Graph& graph, const std::vector<int>& stages,
                                      int count);

/// By position among the forward ops: is it an op of the name, or of the scope?
///
///   key     of the plan that says the name, for the message
///   throws  UserError (78) for a name that no forward op has
std::vector<bool> ops_named(const Graph& graph, const std::string& name, const std::string& key);

/// The boundaries at which stages may begin, by position among the forward ops, ascending, without
/// the first op: those of even_stages, but within a third of the work is nearby for two stages,
/// too: half of it may be a branch around which values are kept, as in a U-Net. Where there are
/// fewer than `stages` - 1, all positions between two ops with work.
std::vector<int> stage_boundaries(const Graph& graph, int stages);

}  // namespace tessera
