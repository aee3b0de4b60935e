// The data of a run: read from files or drawn, cut into what is trained on and what is held out.
#pragma once

#include <optional>
#include <string>

#include "config/config.h"
#include "data/dataset.h"
#include "graph/graph.h"
#include "model/model.h"

namespace tessera {

/// A loss that is known without a model, to compare the held-out loss with.
struct BaselineLoss {
  std::string key;          // in results: "bigram_entropy", "entropy_rate", "masked_entropy"
  std::string description;  // "bigram entropy of the held-out text"
  double nats = 0;          // a token
};

/// Data read, cut and ready; the same for every plan.
struct RunData {
  Vocabulary vocabulary = Vocabulary::bytes();  // of text
  DatasetPtr train;
  DatasetPtr held_out;
  int64_t classes = 0;  // of a label: the vocabulary of tokens, with the mask where there is one
  std::optional<BaselineLoss> baseline = {};
  std::string unit = "token";  // what a label is of: "token", "image", "pixel"
  int64_t train_units = 0;
  int64_t held_out_units = 0;
};

/// What the model and the vocabulary of an earlier run say of the data.
struct DataRequest {
  int64_t context = 0;                        // of samples of tokens
  std::optional<Vocabulary> vocabulary = {};  // else that of the text
};
/// throws  UserError: 66 a file is missing, 65 a file is damaged, there is too little data, or a
/// character that is not in the vocabulary
RunData load_data(const DataConfig& config, const DataRequest& request);

/// The sizes of a model that its data gives: the vocabulary; the classes and the extents of an
/// image.
void set_sizes(ModelConfig& model, const RunData& data);
/// As set_sizes, without the data where its settings alone say it.
/// throws  as load_data
void set_sizes(ModelConfig& model, const DataConfig& data);

/// The tensors of a batch that the program reads: its inputs, but for the step and the learning
/// rate.
std::vector<std::string> data_inputs(const Graph& graph);

/// throws  UserError (78): a model of masked tokens whose data masks none, or one of another kind
/// whose data does
void check_fits(const RunConfig& config);
/// throws  UserError (78): the program reads a tensor that the data does not have, or has otherwise
void check_fits(const Graph& graph, const ModelConfig& model, const Dataset& data);

}  // namespace tessera
