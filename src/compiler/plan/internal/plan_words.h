// The words of other systems for the keys of plans and presets.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/files/config_table.h"

namespace tessera {

/// The keys that have another name here.
std::span<const KeyAlias> plan_aliases();
/// The keys of what does not exist here.
std::span<const ForeignKey> foreign_plan_keys();

/// A key of a preset as other systems call it, in the words of presets: "dp=4,zero=3" for "fsdp"
/// and "4". "" for other keys.
std::string preset_item(std::string_view key, std::string_view value);
/// The items with those of other systems replaced.
std::string preset_items(const std::vector<std::pair<std::string, std::string>>& items);

}  // namespace tessera
