// Values of keys that have names.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "base/files/config_table.h"

namespace tessera {

/// One of `choices`, which to_text() names.
template <typename Choices>
auto choice_of(ConfigTable& table, const std::string& key, const Choices& choices,
               typename Choices::value_type fallback) {
  std::vector<std::string> names;
  for (const auto choice : choices) names.emplace_back(to_text(choice));
  const std::string text = table.choice(key, std::string(to_text(fallback)), names);
  return *std::find_if(choices.begin(), choices.end(),
                       [&](const auto choice) { return to_text(choice) == text; });
}

}  // namespace tessera
