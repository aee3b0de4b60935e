// What a checkpoint of an engine consists of: the parts of the ranks, and the documents.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "training/checkpoint/checkpoint.h"
#include "training/engine/engine.h"

namespace tessera {

/// The variables of a graph by name: parameters and optimizer state, not the gradients of a step in
/// parts.
std::map<std::string, TensorType> variables_of(const Graph& graph);

/// All settings that determine the order of the samples.
Document::Table order_of_data(const Engine& engine);

/// state.json and plan.json, of the present step.
struct CheckpointDocuments {
  Document state;
  Document plan;
};
CheckpointDocuments documents_of(const Engine& engine);

/// The parts that a rank stores: of the parts that it holds, those of `variables` whose first
/// holder it is. Their bytes stay where they are.
std::vector<StoredPart> owned_parts(const std::map<std::string, TensorType>& variables,
                                    std::span<const VariablePart> held);

}  // namespace tessera
