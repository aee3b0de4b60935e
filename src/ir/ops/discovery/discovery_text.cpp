// The text of a discovery.
#include <algorithm>

#include "base/error.h"
#include "base/tensor/dims.h"
#include "base/text/text.h"
#include "ir/ops/internal/discovery/discovered.h"

namespace tessera {
namespace {

using Restore = DiscoveredResult::Restore;

std::string text_of(const DiscoveredDim& along) {
  std::string text = std::to_string(along.dim);
  if (along.unit > 1) text += "*" + std::to_string(along.unit);
  if (along.chunks > 1) text += " in " + std::to_string(along.chunks) + " chunks";
  return text;
}

std::string text_of(const DiscoveredResult& result) {
  switch (result.restore) {
    case Restore::kSame: return "same";
    case Restore::kReduce: return std::string(to_text(result.reduce));
    case Restore::kJoin: return "join(" + text_of(result.along) + ")";
  }
  throw InternalError("unknown kind of restore");
}

/// The factors of the dims of one operand, up to the last dim that has one: "[1, 2*4]".
std::string text_of_operand(const Discovery& discovery, size_t input) {
  std::vector<std::string> dims(kMaxRank, "0");
  size_t count = 0;
  for (size_t f = 0; f < discovery.factors.size(); ++f) {
    DiscoveredDim along = discovery.factors[f].inputs[input];
    if (along.dim < 0) continue;
    const size_t dim = along.dim;
    along.dim = static_cast<int>(f) + 1;
    dims[dim] = text_of(along);
    count = std::max(count, dim + 1);
  }
  dims.resize(count);
  return "[" + join(dims, ", ") + "]";
}

std::string text_of(const DiscoveredFactor& factor) {
  std::vector<std::string> results;
  for (const DiscoveredResult& result : factor.outputs) results.push_back(text_of(result));
  std::string text = join(results, ", ");
  if (factor.halo_before + factor.halo_after > 0)
    text += " with a halo of " + std::to_string(factor.halo_before) + " before and " +
            std::to_string(factor.halo_after) + " after";
  if (factor.counts_from_part) text += ", integers counted from the part";
  return text;
}

}  // namespace

std::string to_text(const Discovery& discovery) {
  if (!discovery.nothing_because.empty()) return "not tried: " + discovery.nothing_because;
  std::vector<std::string> operands;
  const size_t inputs = discovery.factors.empty() ? 0 : discovery.factors[0].inputs.size();
  for (size_t i = 0; i < inputs; ++i) operands.push_back(text_of_operand(discovery, i));
  std::string text = "[" + join(operands, ", ") + "]";
  for (size_t f = 0; f < discovery.factors.size(); ++f)
    text += "; " + std::to_string(f + 1) + ": " + text_of(discovery.factors[f]);
  return text;
}

}  // namespace tessera
