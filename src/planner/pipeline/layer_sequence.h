// A training graph as a line of units: runs of forward ops in program order, between which a
// pipeline may be cut. This file knows the structure of graphs, and no devices or prices.
#pragma once

#include <vector>

#include "base/units.h"
#include "ir/graph/graph.h"

namespace tessera {

/// Backward ops, optimizer ops and variables belong to units as a plan of stages assigns them to
/// meshes (sharding/propagation/mesh_assignment.h).
struct LayerSequence {
  /// The units [begin, end).
  struct Run {
    int begin = 0, end = 0;
    bool operator==(const Run&) const = default;
  };

  // By unit: its first op, by position among the forward ops.
  std::vector<int> begins = {};
  std::vector<int> unit_of_op = {};     // by op
  std::vector<int> unit_of_value = {};  // by value
  // By unit: results of units before it that it or later ones read.
  std::vector<Bytes> cut_bytes = {};
  /// A variable that a unit reads in the forward and that belongs to another one.
  struct SharedVariable {
    int owner = 0, reader = 0;  // units
    Bytes bytes;
  };
  std::vector<SharedVariable> shared = {};
  // By unit: those up to itself from which it reads rows that have a gradient.
  std::vector<std::vector<int>> reads = {};

  int units() const { return static_cast<int>(begins.size()); }
  /// Do the units [begin, end) read such a result of the units [first, begin)?
  bool reads_from(int first, int begin, int end) const;
  /// Runs that do not wait for each other, in their order: each begins with a unit that reads no
  /// earlier one and that later ones read, and ends before the next one and before a unit that
  /// reads one of an earlier run. Empty where all units follow from the first one.
  std::vector<Run> branches() const;
};

/// Cuts a graph at the boundaries of layers and of residual branches: stage_boundaries() in
/// planner/presets/stages.h.
///
///   stages     the most stages that will be made of it
///   begins     of further units, by position among the forward ops, ascending
///   max_units  more are joined, those with the least work first; but none across `begins`
///   time       O(ops) and that of the boundaries
LayerSequence layer_sequence(const Graph& graph, int stages, const std::vector<int>& begins = {},
                             int max_units = 128);

/// By op: is it a backward op from which nothing in the backward of an earlier unit follows?
std::vector<bool> weight_gradients(const Graph& graph, const std::vector<int>& unit_of_op);

/// The op of `graph` that stands for each op of a graph that passes made of it: that of its name,
/// for a second computation the first one, and for another new op that of the op before it.
std::vector<int> ops_by_name(const Graph& graph, const Graph& rewritten);

}  // namespace tessera
