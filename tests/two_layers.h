// Two layers on two meshes: the first column-parallel on ranks 0 and 1, the second row-parallel on
// 2 and 3. docs/tour.md shows its four programs.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/lower/lower.h"
#include "document_examples.h"

namespace tessera {

struct TwoLayers {
  static constexpr int64_t kBatch = 8, kIn = 6, kHidden = 4, kOut = 2;
  static constexpr int64_t kMicroBatches = 2;
  static constexpr int64_t kRows = kBatch / kMicroBatches;  // of a micro-batch

  Graph graph;
  std::map<std::string, std::string> stages;  // the dump of each pass of compile()
  Compiled compiled;

  TwoLayers();
};

/// The examples in docs/tour.md, in their order.
std::vector<DocumentExample> examples_of(const TwoLayers& layers);

}  // namespace tessera
