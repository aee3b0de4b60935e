#include "tools/cli/internal/print/repeated_rows.h"

#include <algorithm>
#include <cctype>
#include <unordered_map>

#include "base/text/text.h"

namespace tessera {
namespace {

// Characters that no text of a table has.
constexpr char kMention = '\1';
constexpr char kEndOfCell = '\2';

bool is_of_name(char letter) {
  return std::isalnum(static_cast<unsigned char>(letter)) || letter == '_' || letter == '.' ||
         letter == '-' || letter == ':';
}

/// The scopes up to the last part: "blocks." of "blocks.3".
std::string_view outer_scope(std::string_view scope) {
  return scope.substr(0, scope.rfind('.') + 1);
}

}  // namespace

std::string count_suffix(int64_t count) {
  return count == 1 ? "" : "  x" + std::to_string(count);
}

RepeatedRows::RepeatedRows(const Graph& graph) {
  for (const auto& group : find_repeated_layers(graph).groups) {
    if (group.front().scope.empty()) continue;
    const std::string_view outer = outer_scope(group.front().scope);
    const bool have_one_outer = std::all_of(group.begin(), group.end(), [&](const Layer& layer) {
      return outer_scope(layer.scope) == outer;
    });
    Group& made = groups_.emplace_back();
    made.prefix = have_one_outer ? outer : "";
    for (const Layer& layer : group) {
      label_of_scope_[layer.scope] = {static_cast<int>(groups_.size()) - 1,
                                      static_cast<int>(made.labels.size())};
      made.labels.push_back(layer.scope.substr(made.prefix.size()));
      longest_scope_ = std::max(longest_scope_, split_text(layer.scope, '.').size());
    }
  }
}

std::vector<JoinedRow> RepeatedRows::groups(const std::vector<TableRow>& rows) const {
  std::vector<JoinedRow> result;
  if (groups_.empty()) {
    for (size_t i = 0; i < rows.size(); ++i) result.push_back({rows[i], {i}});
    return result;
  }
  struct Same {
    std::string text;
    std::vector<std::vector<Label>> mentions;  // of each row
  };
  std::vector<Same> list;
  std::unordered_map<std::string, size_t> place;
  for (size_t i = 0; i < rows.size(); ++i) {
    Template found = template_of(rows[i]);
    const auto [at, is_new] = place.try_emplace(found.text, list.size());
    const bool is_own = is_new || !found.has_layer;
    if (is_own) {
      list.push_back({found.text, {}});
      result.emplace_back();
    }
    const size_t group = is_own ? list.size() - 1 : at->second;
    list[group].mentions.push_back(std::move(found.labels));
    result[group].members.push_back(i);
  }
  for (size_t i = 0; i < list.size(); ++i) result[i].row = filled(list[i].text, list[i].mentions);
  return result;
}

std::vector<TableRow> RepeatedRows::joined(const std::vector<TableRow>& rows,
                                           size_t counted) const {
  std::vector<TableRow> result;
  for (JoinedRow& group : groups(rows)) {
    result.push_back(std::move(group.row));
    result.back().at(counted) += count_suffix(std::ssize(group.members));
  }
  return result;
}

RepeatedRows::Template RepeatedRows::template_of(const TableRow& row) const {
  Template result;
  for (const std::string& cell : row) {
    std::string name;
    for (char letter : cell + kEndOfCell) {
      if (is_of_name(letter)) {
        name += letter;
        continue;
      }
      add_name(name, result);
      name.clear();
      result.text += letter;
    }
  }
  return result;
}

/// Appends a name, with a mention in place of each scope of a layer.
void RepeatedRows::add_name(const std::string& name, Template& result) const {
  const std::vector<std::string> parts = split_text(name, '.');
  const size_t before = result.labels.size(), start = result.text.size();
  for (size_t i = 0; i < parts.size();) {
    if (i > 0) result.text += '.';
    size_t taken = 0;
    std::string scope;
    for (size_t size = 1; size <= longest_scope_ && i + size <= parts.size() && taken == 0;
         ++size) {
      scope += (size > 1 ? "." : "") + parts[i + size - 1];
      const auto found = label_of_scope_.find(scope);
      if (found == label_of_scope_.end()) continue;
      result.text += kMention + std::to_string(found->second.group) + kMention;
      result.labels.push_back(found->second);
      taken = size;
    }
    if (taken == 0) result.text += parts[i];
    i += std::max<size_t>(taken, 1);
  }
  if (result.labels.size() > before) {
    result.has_layer = true;
    return;
  }
  result.text.resize(start);
  add_numbered(name, result);
}

void RepeatedRows::add_numbered(const std::string& name, Template& result) {
  const size_t end = name.find_last_not_of("0123456789") + 1;
  const bool is_numbered =
      end > 1 && end < name.size() && name.size() - end < 9 && name[end - 1] == '_';
  result.text += name.substr(0, is_numbered ? end : name.size());
  if (!is_numbered) return;
  result.text += kMention + std::to_string(kNumber) + kMention;
  result.labels.push_back({kNumber, std::stoi(name.substr(end))});
}

/// "blocks.7", or "blocks.{0..5,7}".
std::string RepeatedRows::list_text(int group, const std::vector<int>& layers) const {
  if (group == kNumber) return layers.size() == 1 ? std::to_string(layers.front()) : "*";
  const Group& names = groups_[group];
  if (layers.size() == 1) return names.prefix + names.labels[layers.front()];
  std::vector<std::string> runs;
  for (size_t i = 0; i < layers.size();) {
    size_t end = i + 1;
    while (end < layers.size() && layers[end] == layers[end - 1] + 1) ++end;
    const std::string &first = names.labels[layers[i]], &last = names.labels[layers[end - 1]];
    runs.push_back(end - i == 1 ? first : first + (end - i == 2 ? "," : "..") + last);
    i = end;
  }
  return names.prefix + "{" + join(runs, ",") + "}";
}

TableRow RepeatedRows::filled(const std::string& text,
                              const std::vector<std::vector<Label>>& mentions) const {
  TableRow row(1);
  size_t mention = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == kEndOfCell) {
      row.emplace_back();
    } else if (text[i] == kMention) {
      std::vector<int> layers;
      for (const std::vector<Label>& of_row : mentions) layers.push_back(of_row[mention].layer);
      std::sort(layers.begin(), layers.end());
      layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
      row.back() += list_text(mentions.front()[mention].group, layers);
      ++mention;
      i = text.find(kMention, i + 1);
    } else {
      row.back() += text[i];
    }
  }
  row.pop_back();
  return row;
}

}  // namespace tessera
