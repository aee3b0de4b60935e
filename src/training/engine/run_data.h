// The data of a run: read from files or generated, and divided into training data and held-out
// data.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "ir/graph/graph.h"
#include "ir/models/model.h"
#include "ir/models/network.h"
#include "training/config/config.h"
#include "training/data/dataset.h"

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
  /// Do labels stand for pieces of a text, so that an evaluation can count its bytes?
  bool is_text = true;
  DatasetPtr train;
  DatasetPtr held_out;
  // number of classes of a label: the size of the vocabulary, with the mask token where there is
  // one
  int64_t classes = 0;
  std::optional<BaselineLoss> baseline = {};
  std::string unit = "token";  // what a step counts: "token", "image", "pixel", "row"
  int64_t train_units = 0;
  int64_t held_out_units = 0;
  int64_t left_out_bytes = 0;  // text that data.max_bytes leaves out
};

/// The data of a user's dataset, of which the last `held_out` (a fraction) are held out.
///   unit    of what a step counts: Network::targets
///   throws  as hold_out
std::shared_ptr<const RunData> data_of(DatasetPtr whole, double held_out, std::string unit);

/// Settings of the data that come from the model and from the vocabulary of an earlier run.
struct DataRequest {
  int64_t context = 0;                        // for samples of tokens
  std::optional<Vocabulary> vocabulary = {};  // nullopt: the vocabulary of the text
};
///   throws  UserError: 66 when a file is missing; 65 when a file is damaged, there is too little
///           data, or a character is not in the vocabulary
RunData load_data(const DataConfig& config, const DataRequest& request);

/// What data.layout says of images.
ImageLayout image_layout(const DataConfig& config);

/// Sets the sizes of a model that its data determines: the vocabulary; the classes and the extents
/// of an image.
void set_sizes(ModelConfig& model, const RunData& data);
/// The same without the data, where its settings alone determine the sizes.
///   throws  as load_data
void set_sizes(ModelConfig& model, const DataConfig& data);

///   throws  UserError (78) when a model of masked tokens has data without masks, or another model
///           has data with masks
void check_fits(const RunConfig& config);
///   throws  UserError (78) when the data lacks a tensor that the program reads, or has it with
///           another type
void check_fits(const Graph& graph, const Network& network, const Dataset& data);

}  // namespace tessera
