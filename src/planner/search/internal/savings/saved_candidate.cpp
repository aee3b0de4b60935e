#include "planner/search/internal/savings/saved_candidate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text/text.h"

namespace tessera {
namespace {

using Source = Candidate::Source;

std::string_view key_of(std::string_view decision) {
  return trim(decision.substr(0, decision.find('=')));
}

Source source_of(const Candidate& base) {
  if (base.source == Source::kCompared || base.source == Source::kCached)
    return Source::kMemorySaving;
  return base.source == Source::kOneDevice ? Source::kPreset : base.source;
}

std::string name_of(const Candidate& base, const std::vector<std::string>& decisions) {
  const std::string known = base.source == Source::kOneDevice ? "dp=1" : base.name;
  const auto is_said = [&](const std::string& part) {
    return std::ranges::count(decisions, key_of(part), key_of) > 0;
  };
  std::vector<std::string> parts;
  for (std::string& part : split_text(known, ','))
    if (!is_said(part)) parts.push_back(std::move(part));
  const char* space = source_of(base) == Source::kPreset ? "" : " ";
  for (const std::string& decision : decisions)
    if (decision.find('=') != std::string::npos) parts.push_back(space + decision);
  return join(parts, ",");
}

}  // namespace

Candidate with_name_of(const Candidate& base, const std::string& decisions) {
  Candidate made{.source = source_of(base),
                 .name = name_of(base, split_text(decisions, ',')),
                 .plan = base.plan,
                 .zero = base.zero};
  made.plan.name = made.name;
  return made;
}

std::string mib_text(Bytes bytes) {
  constexpr double kWhole = 100, kParts = 1000;
  const double mib = static_cast<double>(bytes.value()) / kMib;
  if (mib >= kWhole) return fmt::format("{:.0f}", std::floor(mib));
  return fmt::format("{:g}", std::floor(kParts * mib) / kParts);
}

}  // namespace tessera
