// The [data] table of a configuration: the source of the samples, and how they are cut and ordered.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/files/config_table.h"
#include "base/files/document.h"
#include "training/data/sampler.h"

namespace tessera {

/// The source of the samples. The values of `kind` are:
///
///   text     files and folders of text, as tokens
///   jsonl    files of tokens, one list per line
///   bin      files of tokens: whole numbers of 16 or 32 bits
///   npy      arrays of tokens (path), or of images and labels
///   idx      images and labels in the format of MNIST
///   cifar    images with their labels in the format of CIFAR
///   markov   tokens of a Markov chain that is sampled from the seed; its entropy rate is known
///   digits   synthetic digits, to be classified
///   shapes   synthetic circles, squares and triangles, to be classified pixel by pixel
struct DataConfig {
  std::string kind = "text";
  std::vector<std::string> path;  // text, jsonl, npy, cifar: files (text: also folders)
  std::string images, labels;     // idx, npy: one file each
  std::string tokens = "bytes";   // text: "bytes", "characters"
  std::string layout = "auto";    // images of npy, idx: "auto", "nchw", "nhwc" (ImageLayout)
  int64_t max_bytes = 0;          // text: the rest is left out; 0: no limit
  int64_t bits = 16;              // bin: of a token, 16 or 32
  int64_t vocabulary = 0;         // bin, jsonl, npy: number of tokens; 0: the largest token and one
  /// Number of classes. idx, npy: 0 means the largest label and one. cifar: 10 or 100; 0 means 10.
  int64_t classes = 0;
  /// idx, npy, jsonl: a label that is not counted, beside -1.
  int64_t ignore_label = -1;
  int64_t stride = 0;  // text, bin, jsonl, npy: tokens from sample to sample; 0: the context
  /// For tokens: one token of each block of this size is masked and predicted; 0: the next token is
  /// predicted.
  int64_t mask_block = 0;
  int64_t states = 8;      // markov
  int64_t samples = 4096;  // number of synthetic samples, including those held out
  int64_t size = 16;       // digits, shapes: rows and columns
  double noise = 0.1;      // digits, shapes: deviation of each pixel
  uint64_t seed = 1;       // of synthetic data and of masks
  /// The last fraction of the samples, or of the tokens (text, bin, jsonl, and tokens of npy).
  double held_out = 0.1;
  Shuffle shuffle = Shuffle::kBeforeSplit;
  Tail tail = Tail::kDrop;
};

///   needs_files  false: the names of files may be missing, since nothing is read from them
///   throws  UserError (78) for a key that the kind does not have, a value out of range, or a
///           missing file name
DataConfig read_data_config(ConfigTable table, bool needs_files = true);
/// Refuses data without the names of its files.
///   throws  UserError (78)
void check_has_files(const DataConfig& data, const std::string& file);
/// The values of data.kind.
const std::vector<std::string>& data_kinds();
/// The settings of the kind in use with defaults filled in, so that read_data_config can read them.
Document settings_of(const DataConfig& data, int64_t context);

}  // namespace tessera
