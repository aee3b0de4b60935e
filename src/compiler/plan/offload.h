// Which state of the optimizer a plan offloads.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "base/files/config_table.h"
#include "base/files/document.h"
#include "ir/graph/graph.h"

namespace tessera {

/// State of the optimizer that rests outside of the memory of its rank, in a file. Each step copies
/// it into memory before the update and back after it (compiler/lower/internal/passes/offload.h).
struct Offload {
  enum class Kind {
    kNone,
    kState,     // all of it
    kPatterns,  // the variables whose names match one of `patterns`
  };
  Kind kind = Kind::kNone;
  std::vector<std::string> patterns = {};  // of matches() in base/text/text.h

  bool operator==(const Offload&) const = default;
};

/// The names of the variables that `offload` chooses: state of the optimizer and nothing else.
std::set<std::string> offloaded_variables(const Graph& graph, const Offload& offload);

/// The key "offload": "none", "state" or patterns.
///   throws  UserError (78) for another value
Offload read_offload(ConfigTable& table);
/// Writes nothing for the default.
void write_offload(const Offload& offload, Document& document);

///   plan     its name, for the message
///   throws   UserError (78) when there is nothing to offload: the training graph has no state of
///            an optimizer, or none that matches one of the patterns
void check_offload(const Offload& offload, const std::string& plan, const Graph& graph);

}  // namespace tessera
