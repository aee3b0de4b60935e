// For tests: the choice of what is computed again as an integer program, which another solver
// (COIN-OR CBC) solves where that is installed.
#pragma once

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/files/file.h"
#include "base/text/text.h"
#include "compiler/rewrite/internal/recompute_blocks.h"
#include "ir/graph/repeated_layers.h"

namespace tessera::rewrite_testing {

/// In the LP format, of a graph on one device. a_i is 1 when op i is computed again, k_v when the
/// value v is kept. What the backward reads is kept or computed again; so is every operand of an op
/// that is computed again. A result that another layer reads is not.
class RecomputeProgram {
 public:
  RecomputeProgram(const Graph& graph, const RecomputeTerms& terms)
      : graph_(graph), layers_(find_repeated_layers(graph)) {
    int seen = 0;
    std::set<std::pair<int, int>> known;
    for (int i = 0; i < std::ssize(graph.ops()); ++i) {
      const LayerPlace place = layers_.at(OpId{i});
      if (graph.op({i}).role == Role::kForward && !place.is_none() &&
          known.emplace(place.group.value(), place.layer.value()).second)
        ++seen;
      segment_.push_back(place.is_none() ? -1 - seen
                                         : place.group.value() * 100000 + place.layer.value());
    }
    for (const Seconds& cost : terms.cost) unit_ = std::max(unit_, cost.value() / 1000);
    std::string objective, bytes, rows, binaries;
    for (int i = 0; i < std::ssize(graph.ops()); ++i) {
      const Op& op = graph.op({i});
      if (op.role != Role::kForward) continue;
      binaries += fmt::format("a_{}\n", i);
      objective += fmt::format(" + {:.9g} a_{}", terms.cost[i].value() / unit_, i);
      if (!may_be_again({i})) rows += fmt::format("a_{} = 0\n", i);
      for (ValueId output : op.outputs) {
        binaries += fmt::format("k_{}\n", output.index);
        bytes += fmt::format(" + {} k_{}", terms.kept_bytes(output, 0).value(), output.index);
        if (is_read_by(output, Role::kBackward) || is_read_by(output, Role::kOptimizer) ||
            is_output(output))
          rows += fmt::format("k_{} + a_{} >= 1\n", output.index, i);
      }
      for (ValueId input : std::set<ValueId>(op.inputs.begin(), op.inputs.end()))
        if (const OpId maker = graph.value(input).producer; maker.index >= 0)
          rows += fmt::format("k_{} + a_{} - a_{} >= 0\n", input.index, maker.index, i);
    }
    text_ = "minimize\nobj: " + objective + "\nsubject to\n" + rows + bytes +
            fmt::format(" <= {}\nbinaries\n", terms.limit.value()) + binaries + "end\n";
  }

  /// The least cost that CBC proves; nullopt when it does not finish, or there is no choice.
  std::optional<double> smallest(const std::filesystem::path& folder) const {
    const std::filesystem::path program = folder / "recompute.lp", answer = folder / "answer.txt";
    write_file(program, text_);
    const std::string command =
        fmt::format("cbc {} -ratioGap 0 -allowableGap 0 -seconds 8 -solve -solution {} > {} 2>&1",
                    program.string(), answer.string(), (folder / "log").string());
    if (std::system(command.c_str()) != 0 || !std::filesystem::exists(answer)) return {};
    const std::string first = split_text(read_file(answer), '\n').front();
    std::filesystem::remove(answer);
    const size_t value = first.find("objective value");
    if (first.find("Optimal") != 0 || value == std::string::npos) return {};
    return unit_ * std::strtod(first.c_str() + value + 15, nullptr);
  }

 private:
  bool is_read_by(ValueId value, Role role) const {
    for (OpId user : graph_.value(value).users)
      if (graph_.op(user).role == role) return true;
    return false;
  }
  bool is_output(ValueId value) const {
    for (const auto& [name, output] : graph_.outputs())
      if (output == value) return true;
    for (const Variable& variable : graph_.variables())
      if (variable.next == value) return true;
    return false;
  }
  bool may_be_again(OpId op) const {
    for (ValueId output : graph_.op(op).outputs) {
      if (is_output(output) || is_read_by(output, Role::kOptimizer)) return false;
      for (OpId user : graph_.value(output).users)
        if (graph_.op(user).role == Role::kForward && segment_[user.index] != segment_[op.index])
          return false;
    }
    return true;
  }

  const Graph& graph_;
  const RepeatedLayers layers_;
  std::vector<int> segment_;  // by op: its layer, or between which layers it stands
  double unit_ = 0;           // seconds: CBC takes costs far below 1 for nothing
  std::string text_;
};

inline bool has_cbc() {
  return std::system("command -v cbc > /dev/null") == 0;
}

}  // namespace tessera::rewrite_testing
