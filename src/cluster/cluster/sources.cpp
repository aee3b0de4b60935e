#include "cluster/cluster/sources.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <functional>

#include "base/random.h"
#include "cluster/cluster/cluster_file.h"
#include "cluster/cluster/internal/place.h"

namespace tessera {
namespace {

constexpr std::array<std::string_view, 4> kForReaders{"name", "assumed", "source", "sources"};

bool is_for_readers(std::string_view key) {
  return std::ranges::find(kForReaders, key) != kForReaders.end();
}

/// Calls `use` with the place of every value that is no table and no list.
void for_each_value(const Document& document, const std::string& place,
                    const std::function<void(const std::string&)>& use) {
  if (document.is_list()) {
    for (size_t i = 0; i < document.as_list().size(); ++i)
      for_each_value(document.as_list()[i], fmt::format("{}[{}]", place, i), use);
  } else if (document.is_table()) {
    for (const auto& [key, value] : document.as_table())
      if (!is_for_readers(key)) for_each_value(value, place.empty() ? key : place + "." + key, use);
  } else {
    use(place);
  }
}

}  // namespace

std::string source_of(const ClusterDescription& description, std::string_view place) {
  std::string source;
  size_t longest = 0;
  for (const auto& [around, text] : description.sources)
    if (around.size() >= longest && is_at_or_below(place, around)) {
      source = text;
      longest = around.size();
    }
  return source;
}

std::vector<std::string> places_without_source(const ClusterDescription& description) {
  std::vector<std::string> places;
  for_each_value(to_document(description), "", [&](const std::string& place) {
    if (source_of(description, place).empty()) places.push_back(place);
  });
  return places;
}

std::string fingerprint(const ClusterDescription& description) {
  ClusterDescription values = description;
  values.name.clear();
  values.assumed.clear();
  values.sources.clear();
  for (DeviceType& type : values.types) {
    type.source.clear();
    type.peaks.clear();  // no price depends on them
  }
  return fmt::format("{:016x}", stable_hash(to_json(to_document(values))));
}

std::string today() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  gmtime_r(&now, &parts);
  return fmt::format("{:04}-{:02}-{:02}", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday);
}

}  // namespace tessera
