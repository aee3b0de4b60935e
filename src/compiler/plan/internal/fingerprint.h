// What a plan says about the model that it was made for.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/config_table.h"
#include "base/files/document.h"
#include "ir/graph/graph.h"

namespace tessera {

/// Identifies what the passes over the serial graph (compiler/rewrite/rewrite.h) made of it.
struct RewrittenFingerprint {
  std::string graph;                // hash of the text form of the graph after them
  std::vector<std::string> passes;  // those that ran, in order

  bool operator==(const RewrittenFingerprint&) const = default;
};

/// Identifies the model of a plan. A plan without it is written by hand and fits every model that
/// has the names of its marks.
struct PlanFingerprint {
  std::string graph;    // hash of the text form of the serial training graph
  std::string version;  // of the program that wrote it
  std::map<std::string, std::string> parameters;  // name to type; in a file by patterns of names
  /// nullopt: written by a former version, or without compiling the graph.
  std::optional<RewrittenFingerprint> rewritten = std::nullopt;

  bool operator==(const PlanFingerprint&) const = default;
};

/// Of a serial graph before the passes over it, and of what they made of it.
PlanFingerprint fingerprint_of(const Graph& graph,
                               const std::optional<RewrittenFingerprint>& rewritten = std::nullopt);

/// The fingerprint of the graph that `passes` have made of a serial graph.
RewrittenFingerprint rewritten_fingerprint(const Graph& graph, std::vector<std::string> passes);

///   throws  UserError (78) for anything else than to_document writes
PlanFingerprint read_fingerprint(ConfigTable table);
Document to_document(const PlanFingerprint& fingerprint);

/// A few lines of differences: "- head.weight f32[128,256]" is only in the plan, "+ ..." only in
/// the model.
std::string difference(const PlanFingerprint& planned, const PlanFingerprint& present);

/// The version of this program.
std::string_view version();

}  // namespace tessera
