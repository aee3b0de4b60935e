// The tensors that the caller gives to a step: its inputs, and the results that it fills.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/memory/run_types.h"
#include "task_graph/tasks/task_graph.h"

namespace tessera {

/// The addresses of the tensors, in the order of the inputs and results of a task graph.
struct GivenTensors {
  std::vector<const std::byte*> inputs;
  std::vector<std::byte*> results;

  explicit GivenTensors(const TaskGraph& graph)
      : inputs(graph.inputs.size()), results(graph.results.size()) {}

  /// Finds the inputs by name, and makes the results that do not exist.
  ///   throws  UserError when an input is missing (66) or is of another type (65)
  ///   memory  allocates nothing when all results exist
  void find(const TaskGraph& graph, const std::map<std::string, const Tensor*>& given,
            TensorMap& made);
};

}  // namespace tessera
