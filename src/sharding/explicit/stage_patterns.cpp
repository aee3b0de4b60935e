#include "sharding/explicit/stage_patterns.h"

#include <algorithm>
#include <memory>
#include <unordered_map>

#include "base/text/text.h"
#include "sharding/explicit/name_patterns.h"

namespace tessera {
namespace {

/// The names that continue a beginning, word by word.
struct NameTree {
  const std::string* stage = nullptr;  // of the op with exactly this name
  std::vector<std::pair<std::string, std::unique_ptr<NameTree>>> children = {};
  std::unordered_map<std::string, size_t> positions = {};

  NameTree& child(const std::string& word) {
    const auto [found, is_new] = positions.try_emplace(word, children.size());
    if (is_new) children.emplace_back(word, std::make_unique<NameTree>());
    return *children[found->second].second;
  }

  /// The stage of all ops below; nullptr when there are several.
  const std::string* common_stage() const {
    const std::string* common = stage;
    for (const auto& [word, tree] : children) {
      const std::string* below = tree->common_stage();
      if (!below || (common && *common != *below)) return nullptr;
      common = below;
    }
    return common;
  }
};

using NamesByStage = std::vector<std::pair<std::string, std::vector<std::string>>>;

void write(const std::string& stage, std::string name, NamesByStage& names) {
  auto found = std::find_if(names.begin(), names.end(),
                            [&](const auto& entry) { return entry.first == stage; });
  if (found == names.end()) found = names.insert(names.end(), {stage, {}});
  found->second.push_back(std::move(name));
}

void write_tree(const NameTree& tree, const std::string& name, NamesByStage& names) {
  if (tree.stage) write(*tree.stage, name, names);
  for (const auto& [word, below] : tree.children) {
    const std::string longer = name.empty() ? word : name + "." + word;
    const std::string* common = below->common_stage();
    if (!common || below->children.empty()) {
      write_tree(*below, longer, names);
      continue;
    }
    if (below->stage) write(*common, longer, names);
    write(*common, longer + ".*", names);
  }
}

}  // namespace

std::vector<PatternDecision> stage_patterns(const std::vector<std::string>& ops,
                                            const std::vector<std::string>& stages) {
  NameTree root;
  for (size_t i = 0; i < ops.size(); ++i) {
    NameTree* tree = &root;
    for (const std::string& word : split_text(ops[i], '.')) tree = &tree->child(word);
    tree->stage = &stages[i];
  }
  NamesByStage names;
  write_tree(root, "", names);
  std::vector<PatternDecision> decisions;
  for (auto& [stage, list] : names) decisions.push_back({stage, to_patterns(list)});
  return decisions;
}

}  // namespace tessera
