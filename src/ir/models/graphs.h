// The serial graphs of a network.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/models/network.h"
#include "ir/precision/precision.h"

namespace tessera {

/// The forward graph of a purpose, for a batch of `rows` rows.
///   seed       of dropout
///   precision  the element type of products, and of what is between them
///   throws  UserError (65) when a training or evaluation graph has no loss, its loss or count is
///           not f32[], an input does not begin with the rows, the targets are not an input, or an
///           evaluation graph lacks what a metric reads
Graph forward_graph(const Network& network, ForwardPurpose purpose, int64_t rows, uint64_t seed,
                    const Precision& precision = {});

/// The graph of a training step: forward, backward, optimizer.
///   throws  as forward_graph; UserError (78) for a parameter group that matches nothing
Graph training_graph(const Network& network, const OptimizerConfig& optimizer, int64_t rows,
                     uint64_t seed, const Precision& precision = {});

/// Checks that the variables of an evaluation or prediction graph are among those of training.
///   throws  UserError (65) that names one that training lacks or has with another type
void check_variables(const Network& network, const Graph& training, const Graph& forward);

/// The inputs that the data gives: all but the step and the learning rate.
std::vector<std::string> data_inputs(const Graph& graph);
/// The first of them, whose rows are those of the batch: tokens or images.
///   requires  the graph has one
ValueId samples_input(const Graph& graph);

/// The units that a training step counts: the elements of the targets, or the rows.
///   training  the training graph of the network
int64_t units_per_batch(const Network& network, const Graph& training);
/// What one of them is called: "token"; "image" of targets with one element a row, "pixel" of those
/// with more; "sample" where the rows are counted.
std::string unit_of(const Network& network, const Graph& training);

/// The arithmetic of forward and backward on whole tensors, which the model requires under any
/// division.
double model_flops(const Graph& training);

}  // namespace tessera
