// Explicit shardings: how every op is divided and where every value is kept, as data. They are what
// propagation makes of marks (sharding/explicit/explicit_shardings.h), or what a search decides.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/files/config_table.h"
#include "base/files/document.h"

namespace tessera {

/// The section of the training step.
inline constexpr std::string_view kTrainSection = "train";

/// The names of the sections: "train", "evaluate", "predict", "decode", and the parts of a training
/// step "accumulate", "reduce" and "apply".
std::span<const std::string_view> section_names();

/// A decision and what it is for: ops, values.
struct PatternDecision {
  std::string text;
  std::vector<std::string> names;  // patterns of to_patterns, sharding/explicit/name_patterns.h

  bool operator==(const PatternDecision&) const = default;
};

/// The decisions for the graph of one program. The section kTrainSection has all of its graph. Any
/// other one has what kTrainSection does not say already: an op of an evaluation has the sharding
/// of the op of this name in training.
struct ShardingSection {
  /// The mesh of each op; none when the plan has one mesh. A name that ends in ".*" or is "*"
  /// stands for all with this beginning that no longer one says.
  std::vector<PatternDecision> stages;
  /// The ops that the passes over the serial graph keep, because marks named them.
  std::vector<std::string> kept = {};
  std::vector<PatternDecision> ops;  // text: sharding/explicit/internal/sharding_text.h
  /// The canonical placement of every input and variable, "[@dp, *] on first", and of other values
  /// that are kept otherwise than their op makes them.
  std::vector<PatternDecision> values;
  /// How long copies of values in other placements live, where that is not "step".
  std::vector<PatternDecision> copies;

  bool operator==(const ShardingSection&) const = default;
};

/// The sections by name, in the order of section_names().
struct Shardings {
  std::vector<std::pair<std::string, ShardingSection>> sections;

  const ShardingSection* find(std::string_view name) const;
  bool operator==(const Shardings&) const = default;
};

/// From the table of a plan:
///
///     {"train": {"stages": {"first": ["blocks.0.*"], "last": ["*"]},
///                "kept": ["y"],
///                "ops": {"m@mb@dp": ["y"], "whole": ["rate_{0..3}"]},
///                "values": {"[@mb@dp, *]": ["x"]},
///                "copies": {"pass": ["w"]}},
///      "evaluate": ...}
///
///   keys    receives every key that is asked for
///   throws  UserError (78) for anything else, and when kTrainSection is missing
Shardings parse_shardings(const Document& document, const std::string& origin,
                          std::vector<ReadKey>* keys = nullptr);
Document to_document(const Shardings& shardings);

}  // namespace tessera
