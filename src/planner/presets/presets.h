// The plans of presets: the parallelism that everyone would write by hand, for any graph. Roles
// come from the structure of the graph, never from names.
#pragma once

#include <optional>

#include "compiler/plan/plan.h"
#include "compiler/plan/preset.h"
#include "ir/graph/graph.h"

namespace tessera {

/// The plan of a preset for a training graph: meshes, marks and stages.
///
///   dp      divides dim 0 of every input
///   tp      divides weights by their roles: tensor_classes() in planner/presets/roles.h
///   sp      divides rows of images or positions of sequences: space_classes()
///   pp      divides the forward into stages of equal work: even_stages(), or after the names of
///           `boundaries`: stages_behind(). Without micro_batches
///           it takes the largest divisor of the batch of at most 2 for each stage. The schedules
///           interleaved, zb-v, v-half and v-min have two stages for each of pp
///   stage_hardware  the meshes of the stages with these ops need these devices
///   ranks   rank = ((stage, dp), sp), tp; the number that the axis of the size "rest" fills up
///   throws  UserError (78): no number of ranks for "rest", or one that the other degrees do not
///           divide; an axis that would divide (almost) nothing; more stages than work; another
///           number of boundaries than there are between the stages; a stage that needs two kinds
///           of devices
Plan preset_plan(const Preset& preset, const Graph& graph, std::optional<int> ranks = std::nullopt);

/// One mark for the ops of each stage, with patterns for whole scopes.
///   stages  of each forward op, in program order: an index in the meshes
std::vector<Mark> stage_marks(const Graph& graph, const Meshes& meshes,
                              const std::vector<int>& stages, const std::string& origin);

/// The plan of given stages, each divided as a preset with the axes of its mesh divides all: the
/// stages may differ in their axes and sizes. If they do, the first results that a stage makes of
/// what it receives have marks, too: an axis is propagated to another mesh only where it has one
/// size.
///
///   stages     as above
///   decisions  has the meshes of the stages, with axes of presets; its marks are added
///   zero       of the stages with dp, as Preset::zero: 0 or 1
///   throws     UserError (78) for an axis that would divide (almost) nothing
Plan staged_plan(const Graph& graph, const std::vector<int>& stages, Plan decisions, int zero = 0);

}  // namespace tessera
