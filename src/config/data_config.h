// The [data] table of a configuration: where the samples come from, and how they are cut and
// ordered.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/config_table.h"
#include "base/document.h"
#include "data/sampler.h"

namespace tessera {

/// Where samples come from; the values of `kind`:
///
///   text     files and folders of text, as tokens
///   jsonl    files of tokens, a list a line
///   npy      arrays of tokens (path), or of images and labels
///   idx      images and labels as MNIST has them
///   cifar    images with their labels as CIFAR has them
///   markov   tokens of a Markov chain that the seed draws; its entropy rate is known
///   digits   drawn digits, to be told apart
///   shapes   drawn circles, squares and triangles, to be told apart pixel by pixel
struct DataConfig {
  std::string kind = "text";
  std::vector<std::string> path;  // text, jsonl, npy, cifar: files (text: and folders)
  std::string images, labels;     // idx, npy: a file each
  std::string tokens = "bytes";   // text: "bytes", "characters"
  int64_t max_bytes = 4 << 20;    // text
  int64_t vocabulary = 0;         // jsonl, npy: of the tokens; 0: the largest and one
  int64_t classes = 0;  // idx, npy: of the labels; 0: the largest and one. cifar: 10 or 100; 0: 10
  int64_t stride = 0;   // text, jsonl, npy: between samples, in tokens; 0: the context
  int64_t mask_block =
      0;  // of tokens: one in each so many is masked and asked for; 0: the next token is asked for
  int64_t states = 8;      // markov
  int64_t samples = 4096;  // of what is drawn, with those held out
  int64_t size = 16;       // digits, shapes: rows and columns
  double noise = 0.1;      // digits, shapes: deviation of each pixel
  uint64_t seed = 1;       // of what is drawn, and of the masks
  double held_out =
      0.1;  // fraction of the samples (text, jsonl and tokens of npy: of the tokens), their end
  Shuffle shuffle = Shuffle::kBeforeSplit;
  Tail tail = Tail::kDrop;
};

/// throws  UserError (78): a key that is none of its kind, a value out of range, no file where one
/// is wanted
DataConfig read_data_config(ConfigTable table);
/// The settings of the kind in use, defaults filled in: what read_data_config would have to read.
Document settings_of(const DataConfig& data, int64_t context);

}  // namespace tessera
