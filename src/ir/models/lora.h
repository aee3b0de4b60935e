// Low-rank adaptation as a rewrite of the forward graph.
#pragma once

#include <string>
#include <vector>

#include "ir/graph/graph.h"
#include "ir/models/internal/model_config.h"

namespace tessera {

/// The graph in which each product of x by a weight W of a linear layer that matches a target gives
///
///     x W + alpha / rank (x A) B          A [inputs of W, rank], B [rank, outputs of W]
///
///   variables  `<W>.lora_a`, uniform in +-1 / sqrt(inputs) as in PEFT, and `<W>.lora_b`, 0, so
///              that the graph computes at first what `graph` does; one pair for all products of W
///   ensures    all other variables, ops, inputs and outputs are as before, with their names; the
///              same for the graph of every purpose. With rank 0 the graph is `graph`
///   requires   `graph` has only a forward
///   throws     UserError (78) for a target that matches no weight of a linear layer
///              (input_dims_of_weight in ir/ops/parameter_roles.h)
///   source     Hu et al., "LoRA: Low-rank adaptation of large language models", ICLR 2022
Graph with_adapters(Graph graph, const Lora& lora);

/// Patterns of the variables that it adds.
std::vector<std::string> adapter_patterns();

}  // namespace tessera
