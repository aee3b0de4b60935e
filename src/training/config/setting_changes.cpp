#include "training/config/setting_changes.h"

namespace tessera {

std::vector<std::string> changed_settings(const Document& stored, const Document& present) {
  std::vector<std::string> changes;
  for (const auto& [group, table] : present.as_table())
    for (const auto& [key, value] : table.as_table()) {
      const Document* before = stored.find(group) ? stored.find(group)->find(key) : nullptr;
      if (before && *before == value) continue;
      changes.push_back(group + "." + key + " was " + (before ? to_json(*before) : "not there") +
                        " and is " + to_json(value));
    }
  return changes;
}

std::vector<std::string> changed_variable_settings(const Document& stored,
                                                   const Document& present) {
  std::vector<std::string> changes = changed_settings(stored, present);
  std::erase_if(changes, [](const std::string& change) {
    return !change.starts_with("model.") && !change.starts_with("optimizer.kind ");
  });
  // Another kind of model has other keys, which says nothing more.
  for (const std::string& change : changes)
    if (change.starts_with("model.kind ")) return {change};
  return changes;
}

}  // namespace tessera
