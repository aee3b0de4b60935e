// What a case from a file must be before it runs: a failure of a case that is none is no
// difference.
#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/text/count_text.h"
#include "base/text/text.h"
#include "ir/ops/operator.h"
#include "tools/fuzz/fuzz_case.h"

namespace tessera::fuzz {
namespace {

constexpr int64_t kMaxCount = 1 << 12;         // of steps, micro-batches and chunks
constexpr int kMaxCaseRanks = 1 << 10;         // that are threads
constexpr int64_t kMaxCaseElements = 1 << 28;  // of all values: 2 GiB as doubles

[[noreturn]] void refuse_case(const std::string& what, const std::string& why) {
  throw UserError("the case " + what, why, "write it as a failing case is printed",
                  ExitCode::kBadData);
}

void check_count(const std::string& key, int64_t count) {
  if (count >= 1 && count <= kMaxCount) return;
  refuse_case("has " + key + " " + std::to_string(count), "it is from 1 to " + grouped(kMaxCount));
}

void check_meshes(const FuzzCase& given) {
  for (const NamedMesh& mesh : given.meshes) {
    if (!can_name_mesh(mesh.name))
      refuse_case("has a mesh called '" + excerpt(mesh.name) + "'",
                  "a name is a letter and then letters, digits or _");
    const auto& ranks = mesh.mesh->ranks();
    if (*std::ranges::min_element(ranks) < 0 || *std::ranges::max_element(ranks) >= kMaxCaseRanks)
      refuse_case("has a mesh of other ranks than 0 to " + std::to_string(kMaxCaseRanks - 1),
                  "its ranks are threads of one process");
  }
}

void check_fills(const FuzzCase& given) {
  for (const auto& [name, fill] : given.fills)
    if (!std::isfinite(fill.low) || !std::isfinite(fill.high) || fill.low > fill.high)
      refuse_case("fills '" + excerpt(name) + "' from " + double_text(fill.low) + " to " +
                      double_text(fill.high),
                  "these are finite numbers in ascending order");
}

/// The types that the operator infers; a defect of its attributes is the file's, not the program's.
std::vector<TensorType> inferred(const OpView& op, const std::string& text) {
  OpView asked = op;
  asked.outputs.clear();
  try {
    return op.definition->infer(asked);
  } catch (const InternalError& error) {
    refuse_case("has an op that is malformed: " + text, error.what());
  }
}

void check_types(const Graph& graph, int64_t& elements) {
  for (const Value& value : graph.values()) {
    int64_t size = 1;
    for (const int64_t extent : value.type.shape) {
      if (extent < 0)
        refuse_case("has a value '" + excerpt(value.name) + "' of a negative extent", "");
      size = std::min(size, kMaxCaseElements + 1) * std::min(extent, kMaxCaseElements + 1);
    }
    elements += std::min(size, kMaxCaseElements + 1);
    if (elements > kMaxCaseElements)
      throw UserError("the case does not fit into memory",
                      "its values have more than " + grouped(kMaxCaseElements) + " elements",
                      "make its tensors smaller", ExitCode::kOutOfMemory);
  }
  for (int i = 0; i < std::ssize(graph.ops()); ++i) {
    const Op& op = graph.op({i});
    for (const GraphPtr& region : op.regions) check_types(*region, elements);
    const OpView whole = view(graph, op);
    const std::string text = excerpt(tessera::to_text(graph, OpId{i}));
    if (inferred(whole, text) != whole.outputs)
      refuse_case("has an op with other types than follow from its operands: " + text,
                  "types of results are inferred, and the case must have the same");
  }
}

}  // namespace

void check_case(const FuzzCase& given) {
  check_count("steps", given.steps);
  check_count("micro_batches", given.micro_batches);
  check_count("chunks", given.chunks);
  for (const auto& [axis, sizes] : given.levels)
    for (const int64_t size : sizes) check_count("levels", size);
  check_meshes(given);
  check_fills(given);
  int64_t elements = 0;
  check_types(given.graph, elements);
}

}  // namespace tessera::fuzz
