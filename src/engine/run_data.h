// The data of a run: read from files or generated, and divided into training data and held-out
// data.
#pragma once

#include <optional>
#include <string>

#include "config/config.h"
#include "data/dataset.h"
#include "graph/graph.h"
#include "model/model.h"

namespace tessera {

/// A loss that is known without a model, as a baseline for the held-out loss.
struct BaselineLoss {
  std::string key;          // in results: "bigram_entropy", "entropy_rate", "masked_entropy"
  std::string description;  // "bigram entropy of the held-out text"
  double nats = 0;          // per token
};

/// Data that was read and divided; the same for every plan.
struct RunData {
  Vocabulary vocabulary = Vocabulary::bytes();  // of a text
  DatasetPtr train;
  DatasetPtr held_out;
  // number of classes of a label: the size of the vocabulary, with the mask token where there is
  // one
  int64_t classes = 0;
  std::optional<BaselineLoss> baseline = {};
  std::string unit = "token";  // the unit of a label: "token", "image", "pixel"
  int64_t train_units = 0;
  int64_t held_out_units = 0;
};

/// Settings of the data that come from the model and from the vocabulary of an earlier run.
struct DataRequest {
  int64_t context = 0;                        // for samples of tokens
  std::optional<Vocabulary> vocabulary = {};  // nullopt: the vocabulary of the text
};
///   throws  UserError: 66 when a file is missing; 65 when a file is damaged, there is too little
///           data, or a character is not in the vocabulary
RunData load_data(const DataConfig& config, const DataRequest& request);

/// Sets the sizes of a model that its data determines: the vocabulary; the classes and the extents
/// of an image.
void set_sizes(ModelConfig& model, const RunData& data);
/// The same without the data, where its settings alone determine the sizes.
///   throws  as load_data
void set_sizes(ModelConfig& model, const DataConfig& data);

/// The tensors of a batch that the program reads: its inputs without the step and the learning
/// rate.
std::vector<std::string> data_inputs(const Graph& graph);

///   throws  UserError (78) when a model of masked tokens has data without masks, or another model
///           has data with masks
void check_fits(const RunConfig& config);
///   throws  UserError (78) when the data lacks a tensor that the program reads, or has it with
///           another type
void check_fits(const Graph& graph, const ModelConfig& model, const Dataset& data);

}  // namespace tessera
