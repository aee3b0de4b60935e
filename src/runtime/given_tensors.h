// The tensors of the caller in a step: what the inputs of a program are read from, and where its
// results go.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/runtime.h"
#include "tasks/task_graph.h"

namespace tessera {

/// By place among the inputs and results of a task graph.
struct GivenTensors {
  std::vector<const std::byte*> inputs;
  std::vector<std::byte*> results;

  explicit GivenTensors(const TaskGraph& graph)
      : inputs(graph.inputs.size()), results(graph.results.size()) {}

  /// Finds the inputs by name, and makes those results that are not there.
  ///   throws  UserError when an input is missing (66) or is of another type (65)
  ///   memory  allocates nothing when all results are there
  void find(const TaskGraph& graph, const std::map<std::string, const Tensor*>& given,
            TensorMap& made);
};

}  // namespace tessera
