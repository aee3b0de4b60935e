// The repeated layers of a model: blocks of ops that it repeats, found by their structure.
#pragma once

#include <string>
#include <vector>

#include "base/index.h"
#include "ir/graph/graph.h"

namespace tessera {

using LayerGroupIndex = Index<struct LayerGroupTag>;  // in RepeatedLayers::groups
using LayerIndex = Index<struct LayerTag>;            // in one group

struct Layer {
  /// The forward ops in program order. Those at one position are alike in all layers of a group.
  std::vector<OpId> ops;
  /// The longest scope that has all of them: "blocks.3"; "" where the layers of the group do not
  /// have a scope each.
  std::string scope;
};

/// The layer that an op or a value belongs to; none when it belongs to no repeated block.
struct LayerPlace {
  LayerGroupIndex group = {};
  LayerIndex layer = {};

  bool is_none() const { return group.is_none(); }
  bool operator==(const LayerPlace&) const = default;
};

struct RepeatedLayers {
  /// Groups, and the layers of each, in program order. A group has at least two layers.
  IndexedVector<LayerGroupIndex, IndexedVector<LayerIndex, Layer>> groups;
  std::vector<LayerPlace> of_op;     // by op
  std::vector<LayerPlace> of_value;  // by value

  LayerPlace at(OpId op) const { return of_op[op.index]; }
  LayerPlace at(ValueId value) const { return of_value[value.index]; }
};

/// Finds the repeated blocks among the forward ops, the largest first.
///
///   layers     follow each other in program order. Ops at one position have equal kind, attributes
///              (without random keys), regions and types. Operands that a layer makes are made at
///              one position in all layers; those from outside correspond one to one from each
///              layer to the next, variables to variables
///              A block of one or two ops is a layer only where each has a scope of its own
///   scopes     names do not decide what is alike. They decide only where the first layer begins
///              when the ops before the block look like the end of a layer: where most scopes end
///   belongs    a variable belongs to the layer that has all its forward users; the result of an op
///              to the layer of the op; an op of the backward or of the optimizer, and optimizer
///              state, to the layer of what they were derived from
///   ensures    deterministic
///   time       O(ops + operands) for each of at most 64 periods that are tried
RepeatedLayers find_repeated_layers(const Graph& graph);

}  // namespace tessera
