// A network as a file: a header in TOML and the forward graphs of its purposes as text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "ir/models/network.h"

namespace tessera {

/// What a graph file says beside the network, of the data that it takes. 0 stands for unknown.
struct GraphSizes {
  int64_t context = 0;     // tokens of a sample
  int64_t vocabulary = 0;  // number of tokens
  int64_t classes = 0;     // of images
  ImageSize image = {0, 0, 0};
};

/// A network from a graph file.
struct GraphModel {
  Network network;
  GraphSizes sizes;
  std::string text;  // of the file, so that what stores a run needs no other file
};

/// The text form of a network, of which parse_graph_file makes the network again.
///
///     tessera graph 1
///     name = "the classifier"         # Network, key by key; only loss is required
///     loss = "loss"
///     count = "count"
///     context = 64                    # GraphSizes
///     [[metrics]]
///     name = "accuracy"
///     sum = "correct"
///     [[groups]]
///     pattern = "*.bias"
///     weight_decay = 0.0
///     == training                     # also evaluation, prediction, decoding
///     input tokens: i32[$rows,64]
///     ...                             # ir/graph/graph.h
///
/// Integers that depend on the rows of the batch are `$rows`, `$rows*4` or `$rows*4+1`; numbers are
/// `$rows*0.5`, `$per_row*0.5` for a quotient by them, or `$unbiased*64*0.1`, which is 0.1 n / (n -
/// 1) for n = 64 rows: of a variance without bias. The keys of random numbers are `$key`, from the
/// seed of the run and the name of the op. A comment takes a line of its own in the graphs.
///
///   throws  UserError (65) for a graph that depends on its rows in another way, and for a text
///           model whose predictions are at positions that are not piecewise linear in the known
///           tokens
std::string graph_file_text(const Network& network, const GraphSizes& sizes);

/// The sizes of the network's inputs: `tokens` of a sample, or `images`.
GraphSizes sizes_of_inputs(const Network& network);

/// Writes graph_file_text(network, sizes_of_inputs(network)).
///   throws  as graph_file_text; UserError (1) when the file cannot be written
void save_network(const Network& network, const std::filesystem::path& file);

/// Is this the text of a graph file? Its first line says so.
bool is_graph_file(std::string_view text);

/// Parses the text form and checks every op by its operator.
///
///   origin     for messages
///   operators  of the user, which the graphs name
///   throws     UserError (65) with the line: another version, an unknown key of the header or an
///              unknown operator, operands that do not fit, an op with other result types than
///              its operator gives, no training graph
GraphModel parse_graph_file(std::string_view text, const std::string& origin,
                            OperatorSetPtr operators = nullptr);

/// Reads and parses a file.  throws  as parse_graph_file; UserError (66) when it cannot be read
GraphModel load_network(const std::filesystem::path& file, OperatorSetPtr operators = nullptr);

}  // namespace tessera
